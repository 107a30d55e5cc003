"""The parameters of this package's nodes."""

from __future__ import annotations

from dataclasses import dataclass

from fcnet_core.remote import REMOTE_FILE
from fcnet_ros.parameters import SPEEDS, parameter
from fcnet_teleop.controls import DEFAULT_LAYOUT
from fcnet_teleop.course import COURSES

AUTO_LAYOUT = "auto"


@dataclass(frozen=True)
class TeleopParameters:
    """Parameters that every node of remote control has."""

    robot: str = parameter("aliengo", "robot to drive: the name of a file in config/robots")
    controller: str = parameter("controller", "name of the controller's node")
    bridge: str = parameter("", "name of a real robot's bridge, to stop and reset it as well; empty for none")
    use_stamped_cmd_vel: bool = parameter(False, "send TwistStamped, as the controller's parameter of that name")
    remote_file: str = parameter(str(REMOTE_FILE), "YAML file of buttons, keys and the priority of command sources")


@dataclass(frozen=True)
class JoyParameters(TeleopParameters):
    """The node's parameters."""

    layout: str = parameter(
        AUTO_LAYOUT, f"layout of joysticks whose frame_id is in none of the remote file; auto is {DEFAULT_LAYOUT}"
    )
    joy_timeout: float = parameter(
        0.5, "silence, or age of a message [s], after which a joystick counts as released", (0.05, 5.0)
    )


@dataclass(frozen=True)
class MonitorParameters(TeleopParameters):
    """The node's parameters."""

    host: str = parameter(
        "127.0.0.1", "address to listen at; beyond this computer, such as 0.0.0.0, pages need a token"
    )
    port: int = parameter(8088, "TCP port to listen at; 0 takes a free one", (0, 65535))
    frame_rate: float = parameter(30.0, "snapshots per second", (1.0, 60.0))
    watch_only: bool = parameter(False, "a page without controls, for a recording that is played")


@dataclass(frozen=True)
class DemoParameters:
    """The node's parameters."""

    controller: str = parameter("controller", "name of the controller's node")
    status_terminal: str = parameter("", "path of the terminal for the status line; empty for that of stdout")
    real_time_factor: float = parameter(1.0, "simulated seconds per second", SPEEDS)
    course: str = parameter(
        "normal", "which course: normal, or hard, where a push topples the robot", choices=tuple(COURSES)
    )
    simulator: str = parameter("mujoco_bridge", "name of the simulated robot's node, which pushes it")
    bridge: str = parameter("", "name of a real robot's bridge, which resets and recovers with it; empty for none")
