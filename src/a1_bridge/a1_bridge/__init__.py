"""The Unitree A1 behind the suite's topics: bridge, fake motor board and doctor; with its console scripts."""

from fcnet_ros import entry_point

ROBOT = "a1"

run_bridge = entry_point("unitree_bridge.hardware", ROBOT)
run_fake_board = entry_point("unitree_lowlevel.fake_board.program", ROBOT, ros=False)
run_doctor = entry_point("unitree_lowlevel.doctor.program", ROBOT, ros=False)
