"""An Isaac Gym rollout drives the controller: ros2 launch fcnet_controller isaac_playback.launch.py recording:=FILE."""

from fcnet_controller.descriptions.playback import describe_playback as generate_launch_description

__all__ = ["generate_launch_description"]
