"""The policy over a recorded bag, nothing moves: ros2 launch fcnet_controller replay.launch.py bag:=BAG."""

from launch import LaunchDescription

from fcnet_controller.descriptions.playback import describe_replay


def generate_launch_description() -> LaunchDescription:
    return describe_replay()
