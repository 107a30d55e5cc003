"""One robot in MuJoCo. Nothing outside this folder uses MuJoCo's model and data of a robot."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Rows
from fcnet_core.robot import Robot
from fcnet_core.rotation import xyzw_from_wxyz
from quadruped_sim.physics.mjcf import DAMPING, STIFFNESS, feet_of, prefix, root_of

RATE = 50.0  # [Hz] of the control if neither a policy nor settings have another
LONGEST_STEP = 0.004  # [s] of the physics
MEASURED = ("joint_position", "joint_velocity", "orientation", "angular_velocity")  # signals of every robot
# What is sampled in every time step: of the feet [N, m, m/s, rad/s, in the world frame], and of the joints [Nm, rad/s].
OF_FEET = ("foot_force", "foot_position", "foot_velocity", "foot_spin")
OF_JOINTS = ("torque", "joint_rate")
Samples = Mapping[str, Array]
NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)


def time_step(period: float) -> float:
    """Return the time step [s] of the physics: the longest of at most LONGEST_STEP that divides a control period."""
    return period / math.ceil(period / LONGEST_STEP - 1e-9)


class Layout:
    """Where a compiled model keeps what belongs to the robot, in the order of its joints and feet.

    position, quaternion (w, x, y, z), joints: in qpos; velocity (world frame), spin (body frame), rates: in qvel;
    trunk: number of the free body; sampled: places and shapes in sensordata of what Simulation.step records.
    """

    def __init__(self, robot: Robot, model: mujoco.MjModel) -> None:
        self.trunk = int(model.body(root_of(robot)).id)
        free = model.body_jntadr[self.trunk]
        q, v = int(model.jnt_qposadr[free]), int(model.jnt_dofadr[free])
        self.position, self.quaternion = slice(q, q + 3), slice(q + 3, q + 7)
        self.velocity, self.spin = slice(v, v + 3), slice(v + 3, v + 6)
        joints = [model.joint(prefix(robot) + name) for name in robot.joint_names]
        self.joints = _rows(joint.qposadr[0] for joint in joints)
        self.rates = _rows(joint.dofadr[0] for joint in joints)
        feet, count = len(feet_of(robot)), len(joints)
        shapes = dict(zip(OF_FEET, [(feet,), *3 * [(feet, 3)]], strict=True)) | dict.fromkeys(OF_JOINTS, (count,))
        self.sampled: dict[str, tuple[slice, tuple[int, ...]]] = {}
        end = int(model.nsensordata)
        for name, shape in reversed(shapes.items()):
            self.sampled[name], end = (slice(end - math.prod(shape), end), shape), end - math.prod(shape)


def _rows(addresses: Iterable[int]) -> slice | Rows:
    """Return a slice if the addresses are consecutive, because it is faster, else the addresses."""
    rows = np.array(list(addresses))
    consecutive = (np.diff(rows) == 1).all()
    return slice(int(rows[0]), int(rows[-1]) + 1) if consecutive else rows


class Body:
    """A robot on a terrain. `at`: the layout of its model."""

    def __init__(self, robot: Robot, model: mujoco.MjModel, at: Layout | None = None) -> None:
        self.robot, self.model, self.data = robot, model, mujoco.MjData(model)
        self.at = at or Layout(robot, model)

    @property
    def time_step(self) -> float:
        """Of the physics [s]."""
        return float(self.model.opt.timestep)

    @property
    def joints(self) -> Array:
        """Angles (N,) [rad] of the joints."""
        return self.data.qpos[self.at.joints].copy()

    @property
    def orientation(self) -> Array:
        """Of the trunk (4,), x, y, z, w."""
        return xyzw_from_wxyz(self.data.qpos[self.at.quaternion])

    @property
    def velocity(self) -> Array:
        """Of the trunk (6,): linear [m/s] in the world frame, angular [rad/s] in its own."""
        return np.concatenate([self.data.qvel[self.at.velocity], self.data.qvel[self.at.spin]])

    def put(self, trunk: Array, joints: Array) -> None:
        """Put the robot somewhere, at rest and at time 0: see `move`."""
        mujoco.mj_resetData(self.model, self.data)
        self.move(trunk, joints)

    def move(self, trunk: Array, joints: Array) -> None:
        """Move the robot, without velocity. trunk (7,): its position [m], orientation w, x, y, z; joints (N,) [rad]."""
        self.data.qvel[:] = 0.0
        self.data.qpos[self.at.position], self.data.qpos[self.at.quaternion] = trunk[:3], trunk[3:]
        self.data.qpos[self.at.joints] = joints

    def accelerate(self, velocity: npt.ArrayLike, spin: npt.ArrayLike = 0.0) -> None:
        """Change the trunk's velocity (3,) [m/s] in the world frame and its spin (3,) [rad/s] in its own."""
        self.data.qvel[self.at.velocity] += velocity
        self.data.qvel[self.at.spin] += spin

    def set_gains(self, stiffness: Array | float, damping: Array | float) -> None:
        """Set the gains of the motors, for all or (N,) [Nm/rad, Nms/rad]."""
        self.model.actuator_gainprm[:, STIFFNESS] = stiffness
        self.model.actuator_gainprm[:, DAMPING] = damping

    def advance(self, steps: int) -> None:
        """Simulate `steps` time steps and compute the sensors, which take a tenth of the time, in the last one only."""
        if steps > 1:
            self.model.opt.disableflags |= NO_SENSORS
            mujoco.mj_step(self.model, self.data, steps - 1)
            self.model.opt.disableflags &= ~NO_SENSORS
        mujoco.mj_step(self.model, self.data)

    def open_window(self) -> Any:
        """Return MuJoCo's window on the robot."""
        import mujoco.viewer

        return mujoco.viewer.launch_passive(self.model, self.data, show_left_ui=False, show_right_ui=False)
