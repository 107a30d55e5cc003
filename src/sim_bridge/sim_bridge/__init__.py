"""A simulated quadruped behind the topics of a real one; with its console scripts."""

from fcnet_ros import entry_point

run_mujoco_bridge = entry_point("sim_bridge.mujoco_bridge")
run_mujoco_board = entry_point("sim_bridge.mujoco_board")
run_isaac_playback = entry_point("sim_bridge.isaac_playback")
