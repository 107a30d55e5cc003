"""A Unitree Aliengo, simulated, on a policy: ros2 launch fcnet_controller aliengo.launch.py demo:=true."""

from functools import partial

from fcnet_controller.descriptions.robot import describe_robot

generate_launch_description = partial(describe_robot, __file__)
