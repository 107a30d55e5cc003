"""An Isaac Gym rollout drives the controller: ros2 launch fcnet_controller isaac_playback.launch.py recording:=FILE."""

from launch import LaunchDescription

from fcnet_controller.descriptions.playback import describe_playback


def generate_launch_description() -> LaunchDescription:
    return describe_playback()
