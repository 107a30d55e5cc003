"""A batch of robots in MuJoCo, advanced one control period at a time."""

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask
from fcnet_core.observation.sensors import sensors_of
from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity, xyzw_from_wxyz
from quadruped_sim.physics.body import MEASURED, Body, Layout, Samples, time_step
from quadruped_sim.physics.mjcf import build_model, folded_height, footprint, stand_height
from quadruped_sim.physics.placement import Place, trunk_above
from quadruped_sim.physics.randomization import NOMINAL, Randomization, apply_draw, draw
from quadruped_sim.physics.terrain import Terrain

# A simulated robot has fallen if its trunk is this low or tilted by more than 60 degrees: it will not walk on. The
# controller's watchdog (max_tilt in the robot's file) acts earlier; A1-Walk terminates episodes as its authors did.
FALLEN_HEIGHT = 0.36  # of the nominal height
FALLEN_UPRIGHT = 0.5  # cosine of the tilt
SIGNALLED = ("friction", "payload", "com", "strength", "delay")  # signals: what a robot drew


@dataclass(frozen=True)
class BodyState:
    """True state of a batch. position (B, 3) [m] and linear_velocity (B, 3) [m/s] in the world frame, orientation
    (B, 4) x, y, z, w, angular_velocity (B, 3) [rad/s] in the body frame, joints (B, N) [rad, rad/s], contact (B, F).
    """

    position: Array
    orientation: Array
    linear_velocity: Array
    angular_velocity: Array
    joint_position: Array
    joint_velocity: Array
    contact: Mask


class Simulation:
    """`batch` robots on one terrain, each with its own draw of the randomisation, `drawn`.

    period [s]: of the control; active (B,): the robots that move in a step. steps: time steps of a control period.
    """

    def __init__(
        self,
        robot: Robot,
        batch: int,
        terrain: Terrain,
        seed: int = 0,
        randomization: Randomization = NOMINAL,
        period: float = 0.02,
    ) -> None:
        self.robot, self.terrain, self.batch = robot, terrain, batch
        self.period, self.time_step = period, time_step(period)
        self.steps = round(period / self.time_step)
        self.randomization = randomization
        self.rng = np.random.default_rng(seed)
        self._nominal = build_model(robot, terrain, self.time_step, randomization.effects)
        self._layout = Layout(robot, self._nominal)
        self._stand_height = stand_height(robot)
        self.bodies = [Body(robot, copy.copy(self._nominal), self._layout) for _ in range(batch)]
        self.drawn = draw(randomization, batch, len(robot.joints), self.rng)
        for index, body in enumerate(self.bodies):
            apply_draw(body, self._nominal, self.drawn, index)
        latest = self._time_steps(np.array(randomization.delay[1] + randomization.jitter))
        self._age = self.steps * np.arange(1 + -(-int(latest) // self.steps))  # of the queued targets, in time steps
        self._queue: list[Array] = []
        self._late = np.zeros((len(self._age), batch), dtype=np.int64)  # how much later than sent each takes effect
        self.active = np.ones(batch, dtype=bool)
        self._samples: Array = np.zeros((self.steps, batch, self._nominal.nsensordata))
        self._dropout_rng = np.random.default_rng([seed, 3])
        self._left = np.zeros(batch)  # [s] until states arrive again
        self._missing = np.zeros(batch, dtype=bool)  # whose state does not arrive in this period
        self._arrived: dict[str, Array] = {}
        self._late_rates = randomization.noise > 0 and sensors_of(randomization.sensors)["joint_velocity"].late
        self.reset()

    @property
    def time(self) -> Array:
        """Seconds (B,) since the reset of each robot. MuJoCo itself resets a robot whose motion diverges."""
        return np.array([body.data.time for body in self.bodies])

    @property
    def mass(self) -> Array:
        """Masses (B,) [kg] of the robots, with their payloads."""
        return np.array([body.model.body_mass.sum() for body in self.bodies])

    @property
    def torque_limit(self) -> Array:
        """Largest torques (B, N) [Nm] of the motors, which are lower if they are weak."""
        return np.stack([body.model.actuator_forcerange[:, 1] for body in self.bodies])

    def redraw(self, mask: Mask) -> None:
        """Sample the robots in `mask` (B,) again; reset them next."""
        fresh = draw(self.randomization, self.batch, len(self.robot.joints), self.rng)
        for name, values in self.drawn.items():
            values[mask] = fresh[name][mask]
        for index in np.flatnonzero(mask).tolist():
            apply_draw(self.bodies[index], self._nominal, self.drawn, index)

    def reset(self, mask: Mask | None = None) -> None:
        """Place the robots in `mask` (B,), or all, near the origin, at rest in the stand pose."""
        chosen = np.arange(self.batch) if mask is None else np.flatnonzero(mask)
        for index in chosen:
            self._place(self.bodies[index])
        standing = self.state().joint_position
        if mask is None:
            self._queue = [standing.copy() for _ in self._age]
        for targets in self._queue:
            targets[chosen] = standing[chosen]
        self._late[:, chosen] = 0
        self.active[chosen] = True
        self._left[chosen], self._is_new = 0.0, True

    def lay_down(self, index: int, heading: float, x: float | None = None) -> None:
        """Lay a robot down at rest, folded, level with the ground below it or, with `x` [m], below (x, 0)."""
        body = self.bodies[index]
        here = body.data.qpos[self._layout.position]
        place = Place(float(here[0]), float(here[1]), heading) if x is None else Place(x, 0.0, heading)
        trunk = trunk_above(self.robot, self.terrain, place, folded_height(self.robot))
        body.put(trunk, self.robot.rest_pose)
        for targets in self._queue:
            targets[index] = self.robot.rest_pose

    @contextmanager
    def damped(self, mask: Mask) -> Iterator[None]:
        """Only damp the joints of the robots in `mask` (B,), whatever their targets."""
        gains = {int(index): self.bodies[index].model.actuator_gainprm.copy() for index in np.flatnonzero(mask)}
        for index in gains:
            self.bodies[index].set_gains(0.0, self.robot.damping)
        yield
        for index, gain in gains.items():
            self.bodies[index].model.actuator_gainprm[:] = gain

    def state(self) -> BodyState:
        """Return the true state of every robot."""
        at = self._layout
        qpos = np.stack([body.data.qpos for body in self.bodies])
        qvel = np.stack([body.data.qvel for body in self.bodies])
        touch = np.stack([body.data.sensordata[at.sampled["foot_force"][0]] for body in self.bodies])
        return BodyState(
            position=qpos[:, at.position],
            orientation=xyzw_from_wxyz(qpos[:, at.quaternion]),
            linear_velocity=qvel[:, at.velocity],
            angular_velocity=qvel[:, at.spin],
            joint_position=qpos[:, at.joints],
            joint_velocity=qvel[:, at.rates],
            contact=touch > 0,
        )

    def signals(
        self, ideal: bool = False, names: Iterable[str] = MEASURED, state: BodyState | None = None
    ) -> dict[str, Array]:
        """Return signals (B, n) by name. state: the one now, if it is known.

        Those MEASURED are as a robot measures them: joint angles as the encoders count them, and while states drop out
        the last ones that arrived; ideal: their true values. What only a simulation knows is true: position (B, 3) [m]
        in the world; linear_velocity (B, 3) [m/s] in the body frame; foot_contact (B, F) 0 or 1; base_height (B, 1) [m]
        over the ground; and SIGNALLED.
        """
        state = state or self.state()
        found = {name: self._signal(name, state) for name in names}
        if ideal:
            return found
        if "joint_position" in found:
            found["joint_position"] = found["joint_position"] + self.drawn["joint_zero"]
        if "joint_velocity" in found and self._late_rates:
            at = self._layout.sampled["joint_rate"][0]  # computed before the last time step was integrated
            found["joint_velocity"] = np.stack([body.data.sensordata[at] for body in self.bodies])
        self._drop_out()
        if self._missing.any():
            missing = self._missing[:, None]
            for name in found.keys() & MEASURED & self._arrived.keys():
                found[name] = np.where(missing, self._arrived[name], found[name])
        self._arrived.update(found)
        return found

    def step(self, targets: Array, record: bool = False) -> Samples:
        """Advance every active robot by one control period under position targets (B, N) [rad] as the encoders count
        them, clipped to the joint limits. They take effect after that robot's delay and this period's jitter; of
        targets that have arrived the newest counts.

        record: return what was sampled in the T time steps, valid until the next step: foot_force (T, B, F) [N];
        foot_position, foot_velocity, foot_spin (T, B, F, 3) [m, m/s, rad/s] in the world frame; torque and
        joint_rate (T, B, N) [Nm, rad/s] of one instant.
        """
        joints = np.clip(targets, self.robot.lower, self.robot.upper) - self.drawn["joint_zero"]
        self._queue = [joints, *self._queue[:-1]]
        delay, jitter = self.drawn["delay"], self.randomization.jitter
        late = self._time_steps(delay + self.rng.uniform(0.0, jitter, self.batch) if jitter else delay)
        self._late = np.concatenate([late[None], self._late[:-1]])
        arrival = (self._late - self._age[:, None]).T.tolist()
        for index in np.flatnonzero(self.active):
            self._advance(int(index), arrival[index], record)
        self._is_new = True
        if not record:
            return {}
        every, sampled = self._samples.shape[:2], self._layout.sampled
        return {name: self._samples[..., at].reshape(*every, *shape) for name, (at, shape) in sampled.items()}

    def fallen(self, state: BodyState) -> Mask:
        """Return the robots (B,) that have fallen: tilted by more than 60 degrees, or the trunk near the ground."""
        upright = -projected_gravity(state.orientation)[:, 2]
        return (upright < FALLEN_UPRIGHT) | (self._height(state) < FALLEN_HEIGHT * self.robot.nominal_height)

    def touching(self, first: str, second: str) -> Mask:
        """Return the robots (B,) of which two shapes touch, given by the names of their geoms."""
        one, other = (self._nominal.geom(name).id for name in (first, second))
        contacts = (body.data.contact.geom for body in self.bodies)
        return np.array([((geoms == one) | (geoms == other)).all(axis=1).any() for geoms in contacts])

    def push(self, velocity: Array) -> None:
        """Change the velocities of the trunks by (B, 3) [m/s] in the world frame."""
        for body, change in zip(self.bodies, velocity, strict=True):
            body.accelerate(change)

    def push_randomly(self, mask: Mask, speed: float) -> None:
        """Change the horizontal velocity of the robots in `mask` (B,) by up to `speed` [m/s] in x and in y."""
        velocity = np.zeros((self.batch, 3))
        velocity[mask, :2] = self.rng.uniform(-speed, speed, (int(mask.sum()), 2))
        self.push(velocity)

    def kick(self, speed: float) -> None:
        """Change the horizontal velocity of every robot by `speed` [m/s] in any direction."""
        way = self.rng.uniform(-np.pi, np.pi, self.batch)
        self.push(speed * np.stack([np.cos(way), np.sin(way), np.zeros(self.batch)], axis=-1))

    def _signal(self, name: str, state: BodyState) -> Array:
        match name:
            case "linear_velocity":
                back = matrix_from_xyzw(state.orientation).transpose(0, 2, 1)
                return (back @ state.linear_velocity[..., None])[..., 0]
            case "foot_contact":
                return state.contact.astype(np.float64)
            case "base_height":
                return self._height(state)[:, None]
        return self.drawn[name].reshape(self.batch, -1) if name in SIGNALLED else getattr(state, name)

    def _height(self, state: BodyState) -> Array:
        """Return the height (B,) [m] of the trunks over the ground."""
        return state.position[:, 2] - self.terrain.height(state.position[:, 0], state.position[:, 1])

    def _drop_out(self) -> None:
        """Choose, once in a control period, whose state does not arrive."""
        if not self._is_new:
            return
        self._is_new = False
        self._missing = self._left >= self.period / 2
        self._left -= self.period
        ranges = self.randomization
        if ranges.dropout[1] > 0.0:
            begins = self._dropout_rng.random(self.batch) < self.period / ranges.dropout_interval
            lengths = self._dropout_rng.uniform(*ranges.dropout, self.batch)
            self._left = np.where(begins & (self._left <= 0.0), lengths, self._left)

    def _place(self, body: Body) -> None:
        spot = self.rng.uniform(-1, 1, 2) * self.terrain.spawn_radius
        x, y = np.meshgrid(*(np.linspace(-1.2, 1.2, 13) * half for half in footprint(self.robot)))
        highest = self.terrain.height(spot[0] + x, spot[1] + y).max()  # so that no foot starts inside the ground
        joints = self.robot.stand_pose + self.rng.normal(0, 0.03, len(self.robot.joints))
        body.put(np.array([*spot, highest + self._stand_height + 0.01, 1.0, 0.0, 0.0, 0.0]), joints)
        body.data.ctrl[:] = joints

    def _advance(self, index: int, arrival: list[int], record: bool) -> None:
        """`arrival`: the time steps from now at which the queued targets, newest first, take effect."""
        body, first = self.bodies[index], 0
        while first < self.steps:
            newest = next(age for age, step in enumerate(arrival) if step <= first)
            last = min([self.steps, *arrival[:newest]])
            body.data.ctrl[:] = self._queue[newest][index]
            if not record:
                body.advance(last - first)
            else:
                for substep in range(first, last):
                    mujoco.mj_step(body.model, body.data)
                    self._samples[substep, index] = body.data.sensordata
            first = last

    def _time_steps(self, time: Array) -> npt.NDArray[np.int64]:
        return np.round(time / self.time_step).astype(np.int64)
