"""A batch of robots in MuJoCo, advanced one control period at a time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask
from fcnet_core.files import NotNegative
from fcnet_core.observation import LAYOUT, OBSERVATION_SIZE
from fcnet_core.robot import LEG_JOINTS, LEGS, Body, Robot
from fcnet_core.rotation import projected_gravity, xyzw_from_wxyz
from quadruped_sim.terrain import Terrain

# Ground has contype 1, the robot conaffinity 1: the robot touches the ground but never itself.
ROBOT = 'contype="0" conaffinity="1"'
UNTOUCHABLE = 'contype="0" conaffinity="0"'


def build_model(robot: Robot, terrain: Terrain, timestep: float) -> mujoco.MjModel:
    """Compile the model of a robot on a terrain, without meshes, with a time step in seconds."""
    model = mujoco.MjModel.from_xml_string(robot_xml(robot, terrain, timestep))
    samples = terrain.height_field()
    if samples is not None:
        model.hfield_data[:] = samples.ravel()
    return model


def robot_xml(robot: Robot, terrain: Terrain, timestep: float) -> str:
    """MJCF of `robot` on `terrain`: a free trunk, 12 hinges in JOINT_NAMES order with position actuators (the robot's
    gains and torque limits), an IMU (gyroscope, accelerometer) at the trunk and touch sensors at the feet.
    """
    legs = "".join(_leg(robot, leg) for leg in LEGS)
    actuators = "".join(_actuator(robot, leg, joint) for leg in LEGS for joint in LEG_JOINTS)
    touches = "".join(f'<touch name="{leg}_touch" site="{leg}_foot"/>' for leg in LEGS)
    return f"""<mujoco model="{robot.name}">
<compiler angle="radian" autolimits="true" inertiafromgeom="false"/>
<option timestep="{timestep}" integrator="implicitfast" cone="pyramidal"/>
<visual><global offwidth="1920" offheight="1080"/><headlight ambient=".35 .35 .35" diffuse=".5 .5 .5"/>
<map znear=".01"/></visual>
<asset><texture type="skybox" builtin="gradient" rgb1=".72 .82 .92" rgb2=".25 .35 .45" width="64" height="384"/>
<texture name="ground" type="2d" builtin="checker" rgb1=".38 .42 .45" rgb2=".47 .51 .54" width="128" height="128"/>
<material name="ground" texture="ground" texrepeat="2 2" texuniform="true"/>{terrain.assets()}</asset>
<default><geom friction="1.0 .005 .0001"/></default>
<worldbody><light pos="0 0 5" dir="-.2 .3 -1" directional="true" castshadow="false"/>{terrain.geoms()}
{_trunk(robot)}{legs}</body></worldbody>
<actuator>{actuators}</actuator>
<sensor><gyro name="gyroscope" site="imu"/><accelerometer name="accelerometer" site="imu"/>{touches}</sensor>
</mujoco>"""


def _inertial(body: Body, front: float = 1.0, left: float = 1.0) -> str:
    x, y, z = body.com
    inertia = " ".join(f"{value:.8g}" for value in body.inertia)
    return f'<inertial mass="{body.mass}" pos="{x * front} {y * left} {z}" diaginertia="{inertia}"/>'


def _trunk(robot: Robot) -> str:
    half_x, half_y, half_z = robot.geometry.trunk
    head = f"{half_x * 0.9} 0 {half_z * 0.5}"
    return f"""<body name="trunk" pos="0 0 {robot.nominal_height}"><freejoint name="root"/>
{_inertial(robot.bodies["trunk"])}
<geom name="trunk" type="box" size="{half_x} {half_y} {half_z}" {ROBOT} rgba=".78 .78 .80 1"/>
<geom type="box" pos="{head}" size=".05 {half_y * 0.8} {half_z * 0.7}" {UNTOUCHABLE} rgba=".1 .45 .75 1"/>
<site name="imu"/><camera name="track" mode="trackcom" pos="0 -1.6 .6" xyaxes="1 0 0 0 .35 1"/>"""


def _leg(robot: Robot, leg: str) -> str:
    size = robot.geometry
    front = 1.0 if leg.startswith("F") else -1.0
    left = 1.0 if leg.endswith("L") else -1.0
    side = left * size.abduction
    return f"""<body name="{leg}_hip" pos="{front * size.hip_x} {left * size.hip_y} 0">
{_inertial(robot.bodies["hip"], front, left)}{_joint(robot, leg, "hip", "1 0 0")}
<geom type="capsule" fromto="0 {side * 0.7} 0 0 {side * 1.1} 0" size=".045" {ROBOT} rgba=".25 .25 .28 1"/>
<body name="{leg}_thigh" pos="0 {side} 0">
{_inertial(robot.bodies["thigh"], 1.0, left)}{_joint(robot, leg, "thigh", "0 1 0")}
<geom type="capsule" fromto="0 0 0 0 0 {-size.thigh}" size=".022" {ROBOT} rgba=".78 .78 .80 1"/>
<body name="{leg}_calf" pos="0 0 {-size.thigh}">
{_inertial(robot.bodies["calf"], 1.0, left)}{_joint(robot, leg, "calf", "0 1 0")}
<geom type="capsule" fromto="0 0 0 0 0 {-size.calf + 0.03}" size=".013" {ROBOT} rgba=".15 .15 .15 1"/>
<geom name="{leg}_foot" type="sphere" pos="0 0 {-size.calf}" size="{size.foot_radius}" {ROBOT} rgba=".05 .05 .05 1"/>
<site name="{leg}_foot" pos="0 0 {-size.calf}" size="{size.foot_radius * 1.2}" rgba="0 0 0 0"/></body></body></body>"""


def _joint(robot: Robot, leg: str, joint: str, axis: str) -> str:
    facts = robot.joints[joint]
    low, high = facts.left if leg.endswith("L") else facts.right
    return (
        f'<joint name="{leg}_{joint}_joint" axis="{axis}" range="{low} {high}" armature="{facts.armature}" '
        f'damping="{facts.damping}" frictionloss="{facts.friction}"/>'
    )


def _actuator(robot: Robot, leg: str, joint: str) -> str:
    torque, gains = robot.joints[joint].torque, robot.gains
    return (
        f'<position name="{leg}_{joint}_joint" joint="{leg}_{joint}_joint" kp="{gains.kp}" kv="{gains.kd}" '
        f'forcerange="{-torque} {torque}"/>'
    )


if TYPE_CHECKING:
    Range = tuple[float, float]
else:
    # As settings files have it, see `pair`, which checks it: msgspec 0.22 reads foreign memory where a union has both a
    # tuple of fixed length and a number with a range.
    Range = tuple[float, float] | float

# Standard deviations of the sensor noise: attitude as gravity's direction, joint velocity [rad/s], sine and cosine of
# joint position [rad], angular velocity [rad/s]. What the controller itself computes has none.
SENSOR_NOISE: dict[str, float] = {
    "projected_gravity": 0.02,
    "joint_velocity": 0.3,
    "sin_joint_position": 0.01,
    "cos_joint_position": 0.01,
    "angular_velocity": 0.1,
}
NOISE_LEVELS = np.zeros(OBSERVATION_SIZE, dtype=np.float32)
for _part, _deviation in SENSOR_NOISE.items():
    NOISE_LEVELS[LAYOUT[_part]] = _deviation


def pair(value: Range | float) -> Range:
    """Both ends of a range for which a settings file may give one number. Raises ValueError for what is no range."""
    lowest, highest = value if isinstance(value, tuple) else (value, value)
    if not -1e9 <= lowest <= highest <= 1e9:  # as long as an evaluation holds its setpoints
        raise ValueError(f"the range {value} must go from a lower to a higher number, both within +-1e9")
    return lowest, highest


class Randomization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ranges from which each robot draws: friction coefficient, added trunk mass [kg], factors of the joint gains and
    of the motors' strength, and the delay of its commands [s]. `noise` scales SENSOR_NOISE.
    """

    friction: Range = (0.7, 1.2)
    payload: Range = (-0.5, 1.0)
    gain: Range = (0.95, 1.05)
    strength: Range = (1.0, 1.0)
    delay: Range = (0.0, 0.02)
    noise: NotNegative = 1.0

    def __post_init__(self) -> None:
        for name in ("friction", "payload", "gain", "strength", "delay"):
            msgspec.structs.force_setattr(self, name, pair(getattr(self, name)))


TYPICAL = Randomization()
NOMINAL = Randomization((1.0, 1.0), (0.0, 0.0), (1.0, 1.0), (1.0, 1.0), (0.0, 0.0))


def randomize(model: mujoco.MjModel, drawn: Randomization, rng: np.random.Generator) -> None:
    """Draw a robot: change friction, trunk mass, gains and motor strength of `model` in place."""
    model.geom_friction[:, 0] = rng.uniform(*drawn.friction)
    trunk = model.body("trunk").id
    loaded = 1 + rng.uniform(*drawn.payload) / model.body_mass[trunk]
    model.body_mass[trunk] *= loaded
    model.body_inertia[trunk] *= loaded
    strength = rng.uniform(*drawn.strength)
    factor = strength * rng.uniform(*drawn.gain, size=model.nu)
    model.actuator_gainprm[:, 0] *= factor
    model.actuator_biasprm[:, 1] *= factor
    model.actuator_biasprm[:, 2] *= factor
    model.actuator_forcerange *= strength


def noisy(observation: npt.NDArray[np.float32], scale: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Observations (..., 70) as the sensors would give them."""
    if scale == 0.0:
        return observation
    return observation + scale * NOISE_LEVELS * rng.standard_normal(observation.shape, dtype=np.float32)


TIMESTEP = 0.004  # [s]
CONTROL_PERIOD = 0.02  # [s]
SUBSTEPS = round(CONTROL_PERIOD / TIMESTEP)
FALLEN_HEIGHT = 0.36  # of the nominal height
FALLEN_UPRIGHT = 0.5  # cosine of the tilt


@dataclass(frozen=True)
class BodyState:
    """True state of a batch. position (B, 3) [m] and linear_velocity (B, 3) [m/s] in the world frame, orientation
    (B, 4) x, y, z, w, angular_velocity (B, 3) [rad/s] in the body frame, joints (B, 12) [rad, rad/s], contact (B, 4).
    """

    position: Array
    orientation: Array
    linear_velocity: Array
    angular_velocity: Array
    joint_position: Array
    joint_velocity: Array
    contact: Mask


class Simulation:
    """`batch` robots on one terrain, each with its own draw of the randomisation."""

    def __init__(
        self, robot: Robot, batch: int, terrain: Terrain, seed: int = 0, randomization: Randomization = NOMINAL
    ) -> None:
        self.robot = robot
        self.terrain = terrain
        self.batch = batch
        self.rng = np.random.default_rng(seed)
        self.models = self._draw_models(randomization)
        self.data = [mujoco.MjData(model) for model in self.models]
        self._late = np.round(self.rng.uniform(*randomization.delay, batch) / TIMESTEP).astype(int)
        self._queue: list[Array] = []
        self.active = np.ones(batch, dtype=bool)
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        """Put the robots in `mask` (B,), or all, on their feet near the origin, at rest in the stand pose."""
        chosen = np.arange(self.batch) if mask is None else np.flatnonzero(mask)
        for index in chosen:
            self._place(self.models[index], self.data[index])
        standing = np.stack([data.qpos[7:] for data in self.data])
        if mask is None:
            self._queue = [standing.copy(), standing.copy(), standing.copy()]
        for targets in self._queue:
            targets[chosen] = standing[chosen]
        self.active[chosen] = True

    def state(self) -> BodyState:
        """The true state of every robot."""
        qpos = np.stack([data.qpos for data in self.data])
        qvel = np.stack([data.qvel for data in self.data])
        touch = np.stack([data.sensordata[6:10] for data in self.data])
        return BodyState(
            position=qpos[:, :3],
            orientation=xyzw_from_wxyz(qpos[:, 3:7]),
            linear_velocity=qvel[:, :3],
            angular_velocity=qvel[:, 3:6],
            joint_position=qpos[:, 7:],
            joint_velocity=qvel[:, 6:],
            contact=touch > 0,
        )

    def step(self, targets: Array) -> None:
        """Advance every active robot by one control period under position targets (B, 12) [rad], which take effect
        after that robot's delay. Targets beyond the joint limits are clipped.
        """
        self._queue = [np.clip(targets, self.robot.lower, self.robot.upper), *self._queue[:2]]
        for index in np.flatnonzero(self.active):
            self._advance(int(index))

    def fallen(self, state: BodyState) -> Mask:
        """Which robots (B,) have fallen: tilted by more than 60 degrees, or the trunk near the ground."""
        upright = -projected_gravity(state.orientation)[:, 2]
        clearance = state.position[:, 2] - self.terrain.height(state.position[:, 0], state.position[:, 1])
        return (upright < FALLEN_UPRIGHT) | (clearance < FALLEN_HEIGHT * self.robot.nominal_height)

    def push(self, mask: Mask, speed: float) -> None:
        """Change the horizontal velocity of the robots in `mask` (B,) by up to `speed` [m/s] in x and in y."""
        for index in np.flatnonzero(mask):
            self.data[index].qvel[:2] += self.rng.uniform(-speed, speed, 2)

    def _draw_models(self, randomization: Randomization) -> list[mujoco.MjModel]:
        base = build_model(self.robot, self.terrain, TIMESTEP)
        models = [copy.copy(base) for _ in range(self.batch)]
        for model in models:
            randomize(model, randomization, self.rng)
        return models

    def _place(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        mujoco.mj_resetData(model, data)
        spot = self.rng.uniform(-1, 1, 2) * self.terrain.spawn_radius
        data.qpos[:2] = spot
        data.qpos[2] = self._highest_ground(spot) + stand_height(self.robot) + 0.01
        data.qpos[7:] = self.robot.stand_pose + self.rng.normal(0, 0.03, 12)
        data.ctrl[:] = data.qpos[7:]

    def _highest_ground(self, spot: Array) -> float:
        """Highest ground [m] under a robot's feet, so that none starts inside it."""
        size = self.robot.geometry
        offsets = np.linspace(-1.2, 1.2, 13)
        x, y = np.meshgrid(offsets * size.hip_x, offsets * (size.hip_y + size.abduction))
        return float(self.terrain.height(spot[0] + x, spot[1] + y).max())

    def _advance(self, index: int) -> None:
        model, data, late = self.models[index], self.data[index], int(self._late[index])
        periods, substeps = divmod(late, SUBSTEPS)
        if substeps:
            data.ctrl[:] = self._queue[periods + 1][index]
            mujoco.mj_step(model, data, substeps)
        data.ctrl[:] = self._queue[periods][index]
        mujoco.mj_step(model, data, SUBSTEPS - substeps)


def stand_height(robot: Robot) -> float:
    """Height [m] of the trunk's centre over level ground in the stand pose."""
    thigh, calf = robot.stand_pose[1], robot.stand_pose[1] + robot.stand_pose[2]
    return float(robot.geometry.thigh * np.cos(thigh) + robot.geometry.calf * np.cos(calf)) + robot.geometry.foot_radius
