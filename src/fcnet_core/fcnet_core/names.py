"""Names that packages share, each in this one place: topics, modes, services, diagnostics, setpoints, buttons, units.

This module imports no ROS, so libraries and nodes use the same names. fcnet_ros/topics.py adds the quality of service.
The names in config/remote.yaml, config/bags/ and the JavaScript of pages are the user's or the browser's own; tests
compare them with these.

    from fcnet_core import names

    names.JOINT_STATES.name          # "joint_states", relative: a namespace goes before it
    names.MODE.of("controller")      # the topic "controller/mode"
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal, get_args

CONTROLLER = "controller"  # the usual name of the controller's node


@dataclass(frozen=True)
class TopicName:
    """A topic: its name and message type. "~" stands for the name of the node that publishes."""

    name: str
    type: str

    def of(self, node_name: str) -> TopicName:
        """Return this topic of the node called `node_name`."""
        return replace(self, name=self.name.replace("~", node_name, 1))


STRING = "std_msgs/msg/String"

# From the robot, real, simulated or recorded.
JOINT_STATES = TopicName("joint_states", "sensor_msgs/msg/JointState")  # joint positions, velocities and torques
IMU = TopicName("imu/data", "sensor_msgs/msg/Imu")  # orientation, angular velocity and acceleration of the trunk
ODOM = TopicName("odom", "nav_msgs/msg/Odometry")  # ground truth of a simulated robot
TF = TopicName("tf", "tf2_msgs/msg/TFMessage")  # transform from odom to base_link, of a ROS distribution only
ROBOT_DESCRIPTION = TopicName("robot_description", STRING)  # URDF of the robot
TERRAIN = TopicName("terrain", "sensor_msgs/msg/PointCloud2")  # heights around a simulated robot
ROBOT_FAULT = TopicName("robot_fault", STRING)  # why the robot has tripped; empty without a fault
TARGET_REFUSAL = TopicName("target_refusal", STRING)  # why targets would be refused now; empty if accepted
TARGET_OWNER = TopicName("target_owner", STRING)  # whose targets are followed; empty without an owner
ROBOT_OWNERSHIP = TopicName("robot_ownership", STRING)  # which bridge drives which robot
JOY = TopicName("joy", "sensor_msgs/msg/Joy")  # remote control

# To the robot.
JOINT_TRAJECTORY = TopicName("joint_trajectory", "trajectory_msgs/msg/JointTrajectory")  # joint targets, or damping
JOINT_GAINS = TopicName("joint_gains", STRING)  # stiffness and damping of each joint as JSON

# To and from the controller. config/remote.yaml lists the sources of commands.
CMD_VEL = TopicName("cmd_vel", "geometry_msgs/msg/Twist")  # commanded velocity: forward, sideways, yaw rate
CMD_POSE = TopicName("cmd_pose", "geometry_msgs/msg/Pose")  # commanded height and attitude of the trunk
MODE = TopicName("~/mode", STRING)  # mode of the controller, a value of Mode
POLICY_STEP = TopicName("~/policy_step", "std_msgs/msg/Float64MultiArray")  # inputs of one step of the policy

# Shared by all robots, so without a namespace.
CLOCK = TopicName("/clock", "rosgraph_msgs/msg/Clock")  # time of a simulation or a replay
DIAGNOSTICS = TopicName("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")  # health of the nodes
ROSOUT = TopicName("/rosout", "rcl_interfaces/msg/Log")  # log of the nodes

# Frames: of odom, of the trunk and of its IMU.
WORLD_FRAME, BASE_FRAME, IMU_FRAME = "odom", "base_link", "imu_link"

TOPIC_NAMES = tuple(value for value in list(globals().values()) if isinstance(value, TopicName))


def full_name(name: str, namespace: str) -> str:
    """Return the absolute name of a topic of a robot in `namespace`, which may be empty."""
    space = namespace.strip("/")
    return name if name.startswith("/") else f"/{space}/{name}" if space else f"/{name}"


class Mode(str, Enum):
    """Mode of a robot; the values are the texts on MODE."""

    PASSIVE = "passive"
    RECOVERING = "recovering"
    STANDING_UP = "standing_up"
    STANDING = "standing"
    WALKING = "walking"
    LYING_DOWN = "lying_down"
    FAULT = "fault"

    @property
    def words(self) -> str:
        """The mode as words in a message."""
        return self.value.replace("_", " ")


class Request(str, Enum):
    """A change of the controller's mode; the values are the names of its services, with "~/" before them."""

    STAND_UP = "stand_up"
    RECOVER = "recover"
    WALK = "walk"
    LIE_DOWN = "lie_down"
    RESET = "reset"
    EMERGENCY_STOP = "emergency_stop"


PUSH = "push"  # service of a simulated robot

# Diagnostics: the tasks whose status a node publishes, and the keys that other programs read.
CONTROL, MOTORS, SIMULATION, PLAYBACK, REPLAY = "control", "motors", "simulation", "playback", "replay"


def status_name(node: str, task: str) -> str:
    """Return the name of a status on DIAGNOSTICS. node: fully qualified, with or without the first slash."""
    return f"{node.lstrip('/')}: {task}" if task else node.lstrip("/")


class HealthKey:
    """Keys of values in a status."""

    MODE = "mode"
    FAULT = "fault"
    CYCLES = "cycles"  # of a control loop since its start
    LOOP_TIME = "loop_time_s"  # time of the control loop at that cycle
    DEADLINE_MISSES = "deadline_misses"
    REAL_TIME_FACTOR = "real_time_factor"  # simulated seconds per second
    WANTED_REAL_TIME_FACTOR = "wanted_real_time_factor"
    DRIVER_MODE = "driver_mode"
    TARGET_OWNER = "target_owner"
    WARNINGS = "warnings"


# Setpoints of a walk and their units, in the order of their array; as in a robot file's `commands`. Velocities and
# attitude are in the heading frame; height, width (a fraction), clearance and frequency are offsets from nominal.
SETPOINT_UNITS = {
    "vx": "m/s",
    "vy": "m/s",
    "yaw_rate": "rad/s",
    "height": "m",
    "roll": "rad",
    "pitch": "rad",
    "width": "1",
    "clearance": "m",
    "frequency": "Hz",
}
# The controller's parameters of the gait style, by the setpoint that each one sets.
STYLE_PARAMETERS = {"width": "stance_width", "clearance": "foot_clearance", "frequency": "stride_frequency"}

SECOND = 10**9  # [ns]

# Buttons of Unitree's remote control, in the order of its bits and of a message on JOY.
UnitreeButton = Literal[
    "R1", "L1", "start", "select", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left"
]
BUTTONS: tuple[str, ...] = get_args(UnitreeButton)
