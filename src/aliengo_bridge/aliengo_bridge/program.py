"""The console scripts of this package: those that all of Unitree's quadrupeds share, for the Aliengo."""

from fcnet_ros import entry_point

ROBOT = "aliengo"

bridge = entry_point("unitree_bridge.hardware", ROBOT)
fake_board = entry_point("unitree_lowlevel.fake_board.program", ROBOT)
doctor = entry_point("unitree_lowlevel.doctor.program", ROBOT)
