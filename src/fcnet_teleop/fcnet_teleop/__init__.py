"""Remote control of a robot: keyboard, joystick, browser monitor, and the demo course."""
