"""The robots' physics in MuJoCo: their model, what differs from robot to robot, their stepping."""
