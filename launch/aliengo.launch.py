"""A Unitree Aliengo, simulated, on a policy: ros2 launch fcnet_controller aliengo.launch.py demo:=true."""

from launch import LaunchDescription

from fcnet_controller.descriptions.robot import describe_robot


def generate_launch_description() -> LaunchDescription:
    return describe_robot(__file__)
