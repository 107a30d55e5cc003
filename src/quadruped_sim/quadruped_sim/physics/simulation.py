"""A batch of robots in MuJoCo, advanced one control period at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import Robot
from fcnet_core.rotation import projected_gravity, xyzw_from_wxyz
from quadruped_sim.physics.mjcf import build_model, stand_height
from quadruped_sim.physics.randomization import NOMINAL, Draw, Randomization, apply_draw, draw
from quadruped_sim.physics.terrain import Terrain

TIMESTEP = 0.004  # [s]
CONTROL_PERIOD = 0.02  # [s]
SUBSTEPS = round(CONTROL_PERIOD / TIMESTEP)
# What mjcf.robot_xml measures in addition to the IMU: of the feet in LEGS order [N, m, m/s, rad/s, in the world frame],
# and of the joints in JOINT_NAMES order [Nm, rad/s].
SENSORS = {
    "touch": slice(6, 10),
    "foot_position": slice(10, 22),
    "foot_velocity": slice(22, 34),
    "foot_spin": slice(34, 46),
    "torque": slice(46, 58),
    "joint_velocity": slice(58, 70),
}
SENSOR_COUNT = 70
NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
# A simulated robot has fallen if its trunk is this low or tilted by more than 60 degrees: it will not walk on. The
# controller's watchdog (max_tilt in the robot's file) acts earlier; A1-Walk terminates episodes as its authors did.
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
    """`batch` robots on one terrain, each with its own draw of the randomisation, `drawn`."""

    def __init__(
        self, robot: Robot, batch: int, terrain: Terrain, seed: int = 0, randomization: Randomization = NOMINAL
    ) -> None:
        self.robot = robot
        self.terrain = terrain
        self.batch = batch
        self.period = CONTROL_PERIOD
        self.randomization = randomization
        self.rng = np.random.default_rng(seed)
        self._nominal = build_model(robot, terrain, TIMESTEP, randomization.effects)
        self.models = [copy.copy(self._nominal) for _ in range(batch)]
        self.data = [mujoco.MjData(model) for model in self.models]
        self.drawn: Draw = draw(randomization, batch, self.rng)
        self._apply(range(batch))
        latest = _substeps(np.array(randomization.delay[1] + randomization.jitter))
        self._age = SUBSTEPS * np.arange(1 + -(-int(latest) // SUBSTEPS))  # of the queued targets, in time steps
        self._queue: list[Array] = []
        self._late = np.zeros((len(self._age), batch), dtype=np.int64)  # how much later than sent each takes effect
        self.active = np.ones(batch, dtype=bool)
        self.reset()

    def redraw(self, mask: Mask) -> None:
        """Sample the robots in `mask` (B,) again; reset them next."""
        fresh = draw(self.randomization, self.batch, self.rng)
        for name in Draw.__dataclass_fields__:
            getattr(self.drawn, name)[mask] = getattr(fresh, name)[mask]
        self._apply(np.flatnonzero(mask))

    def reset(self, mask: Mask | None = None) -> None:
        """Place the robots in `mask` (B,), or all, near the origin, at rest in the stand pose."""
        chosen = np.arange(self.batch) if mask is None else np.flatnonzero(mask)
        for index in chosen:
            self._place(self.models[index], self.data[index])
        standing = np.stack([data.qpos[7:] for data in self.data])
        if mask is None:
            self._queue = [standing.copy() for _ in self._age]
        for targets in self._queue:
            targets[chosen] = standing[chosen]
        self._late[:, chosen] = 0
        self.active[chosen] = True

    def state(self) -> BodyState:
        """Return the true state of every robot."""
        qpos = np.stack([data.qpos for data in self.data])
        qvel = np.stack([data.qvel for data in self.data])
        touch = np.stack([data.sensordata[SENSORS["touch"]] for data in self.data])
        return BodyState(
            position=qpos[:, :3],
            orientation=xyzw_from_wxyz(qpos[:, 3:7]),
            linear_velocity=qvel[:, :3],
            angular_velocity=qvel[:, 3:6],
            joint_position=qpos[:, 7:],
            joint_velocity=qvel[:, 6:],
            contact=touch > 0,
        )

    def step(self, targets: Array, samples: Array | None = None) -> None:
        """Advance every active robot by one control period under position targets (B, 12) [rad] as its encoders count,
        which take effect after that robot's delay and this period's jitter; of targets that have arrived the newest
        counts. Targets beyond the joint limits are clipped. `samples` (SUBSTEPS, B, SENSOR_COUNT) receives the sensors
        of every time step, see SENSORS.
        """
        joints = np.clip(targets, self.robot.lower, self.robot.upper) - self.drawn.joint_zero
        self._queue = [joints, *self._queue[:-1]]
        delay, jitter = self.drawn.delay, self.randomization.jitter
        late = _substeps(delay + self.rng.uniform(0.0, jitter, self.batch) if jitter else delay)
        self._late = np.concatenate([late[None], self._late[:-1]])
        arrival = (self._late - self._age[:, None]).T.tolist()
        for index in np.flatnonzero(self.active):
            self._advance(int(index), arrival[index], samples)

    def fallen(self, state: BodyState) -> Mask:
        """Return the robots (B,) that have fallen: tilted by more than 60 degrees, or the trunk near the ground."""
        upright = -projected_gravity(state.orientation)[:, 2]
        clearance = state.position[:, 2] - self.terrain.height(state.position[:, 0], state.position[:, 1])
        return (upright < FALLEN_UPRIGHT) | (clearance < FALLEN_HEIGHT * self.robot.nominal_height)

    def touching(self, first: str, second: str) -> Mask:
        """Return the robots (B,) of which two shapes touch, given by the names of their geoms."""
        pair = [self._nominal.geom(name).id for name in (first, second)]
        return np.array([np.isin(data.contact.geom, pair).all(axis=1).any() for data in self.data])

    def push(self, mask: Mask, speed: float) -> None:
        """Change the horizontal velocity of the robots in `mask` (B,) by up to `speed` [m/s] in x and in y."""
        for index in np.flatnonzero(mask):
            self.data[index].qvel[:2] += self.rng.uniform(-speed, speed, 2)

    def kick(self, speed: float) -> None:
        """Change the horizontal velocity of every robot by `speed` [m/s] in any direction."""
        for data in self.data:
            way = self.rng.uniform(-np.pi, np.pi)
            data.qvel[:2] += speed * np.array([np.cos(way), np.sin(way)])

    def _apply(self, chosen: Iterable[int]) -> None:
        for index in chosen:
            apply_draw(self.models[index], self.data[index], self._nominal, self.drawn, index)

    def _place(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        mujoco.mj_resetData(model, data)
        spot = self.rng.uniform(-1, 1, 2) * self.terrain.spawn_radius
        data.qpos[:2] = spot
        data.qpos[2] = self._highest_ground(spot) + stand_height(self.robot) + 0.01
        data.qpos[7:] = self.robot.stand_pose + self.rng.normal(0, 0.03, 12)
        data.ctrl[:] = data.qpos[7:]

    def _highest_ground(self, spot: Array) -> float:
        """Return the highest ground [m] under a robot's feet, so that none starts inside it."""
        size = self.robot.geometry
        offsets = np.linspace(-1.2, 1.2, 13)
        x, y = np.meshgrid(offsets * size.hip_x, offsets * (size.hip_y + size.abduction))
        return float(self.terrain.height(spot[0] + x, spot[1] + y).max())

    def _advance(self, index: int, arrival: list[int], samples: Array | None) -> None:
        """`arrival`: the time steps from now at which the queued targets, newest first, take effect."""
        model, data = self.models[index], self.data[index]
        newest = next(age for age, step in enumerate(arrival) if step <= 0)
        first = 0
        while first < SUBSTEPS:
            last = min([SUBSTEPS, *arrival[:newest]])
            data.ctrl[:] = self._queue[newest][index]
            if samples is None:
                _advance_quickly(model, data, last - first)
            else:
                for substep in range(first, last):
                    mujoco.mj_step(model, data)
                    samples[substep, index] = data.sensordata
            first = last
            newest = next(age for age, step in enumerate(arrival) if step <= first)


def _substeps(time: Array) -> npt.NDArray[np.int64]:
    return np.round(time / TIMESTEP).astype(np.int64)


def _advance_quickly(model: mujoco.MjModel, data: mujoco.MjData, steps: int) -> None:
    """Simulate `steps` time steps and compute the sensors, which take a tenth of the time, in the last of them only."""
    if steps > 1:
        model.opt.disableflags |= NO_SENSORS
        mujoco.mj_step(model, data, steps - 1)
        model.opt.disableflags &= ~NO_SENSORS
    mujoco.mj_step(model, data)
