"""The parameters of this package's nodes."""

from dataclasses import dataclass

from fcnet_core.remote import REMOTE_FILE
from fcnet_ros.parameters import SPEEDS, parameter
from fcnet_teleop.controls import DEFAULT_LAYOUT
from fcnet_teleop.course import COURSES


@dataclass(frozen=True)
class TeleopParameters:
    """Common parameters of the nodes of remote control."""

    robot: str = parameter("aliengo", "robot, a file name in config/robots")
    controller: str = parameter("controller", "name of the controller's node")
    bridge: str = parameter("", "name of a real robot's bridge, which is also stopped and reset; empty for none")
    use_stamped_cmd_vel: bool = parameter(False, "publish TwistStamped; must equal the controller's parameter")
    remote_file: str = parameter(str(REMOTE_FILE), "YAML file of buttons, keys and the priority of command sources")


@dataclass(frozen=True)
class JoyParameters(TeleopParameters):
    """Parameters of teleop_joy."""

    layout: str = parameter(DEFAULT_LAYOUT, "layout of joysticks with a frame_id that is not in the remote file")
    joy_timeout: float = parameter(0.5, "age of the newest message [s] at which a joystick is released", (0.05, 5.0))
    check: bool = parameter(False, "command nothing; log name and function of every button and axis that is moved")


@dataclass(frozen=True)
class MonitorParameters(TeleopParameters):
    """Parameters of the monitor."""

    host: str = parameter("127.0.0.1", "address to listen at; beyond this computer (0.0.0.0), pages need a token")
    port: int = parameter(8088, "TCP port to listen at; 0 for a free one", (0, 65535))
    frame_rate: float = parameter(30.0, "rate of snapshots [Hz]", (1.0, 60.0))
    watch_only: bool = parameter(False, "page without controls, for playback of a recording")


@dataclass(frozen=True)
class DemoParameters:
    """Parameters of demo_course."""

    controller: str = parameter("controller", "name of the controller's node")
    real_time_factor: float = parameter(1.0, "simulated seconds per second", SPEEDS)
    course: str = parameter("normal", "course; hard: a push topples the robot", choices=tuple(COURSES))
    simulator: str = parameter("mujoco_bridge", "name of the simulator's node, which pushes the robot")
    bridge: str = parameter("", "name of a real robot's bridge, which is also reset and recovered; empty for none")
