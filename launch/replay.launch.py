"""The policy over a recorded bag, nothing moves: ros2 launch fcnet_controller replay.launch.py bag:=BAG."""

from fcnet_controller.descriptions.playback import describe_replay as generate_launch_description

__all__ = ["generate_launch_description"]
