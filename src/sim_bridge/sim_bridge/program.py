"""The console scripts of this package."""

from fcnet_ros import entry_point

mujoco_bridge = entry_point("sim_bridge.mujoco_bridge")
mujoco_board = entry_point("sim_bridge.mujoco_board")
isaac_playback = entry_point("sim_bridge.isaac_playback")
