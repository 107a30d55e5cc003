"""A Unitree A1, simulated, on a policy: ros2 launch fcnet_controller a1.launch.py demo:=true."""

from launch import LaunchDescription

from fcnet_controller.descriptions.robot import describe_robot


def generate_launch_description() -> LaunchDescription:
    return describe_robot(__file__)
