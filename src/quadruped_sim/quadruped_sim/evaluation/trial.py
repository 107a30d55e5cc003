"""Closed-loop episodes of the expert or of a policy: one robot an episode, in batches that any process can run."""

import zlib
from dataclasses import dataclass, replace

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.model_file import PolicyModel
from fcnet_core.robot import SETPOINT_FIELDS, Robot, load_robot
from quadruped_sim.evaluation.gait_quality import GaitRecorder, no_sums
from quadruped_sim.evaluation.getting_up import begin_lying, get_up
from quadruped_sim.evaluation.scenarios import Scenario
from quadruped_sim.evaluation.score import Episodes
from quadruped_sim.physics.body import RATE
from quadruped_sim.physics.mjcf import footprint
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.task import Rewards, load_task
from quadruped_sim.tasks.view import View

COMPARED = [SETPOINT_FIELDS.index(name) for name in ("vx", "vy", "yaw_rate", "height", "roll", "pitch")]


class EpisodeRecorder:
    """Records one batch from the first control period to the last; errors count after `settling` seconds."""

    def __init__(self, robot: Robot, batch: int, period: float, settling: float = 1.0) -> None:
        self._unsettled = round(settling / period)  # control periods
        reach = (robot.geometry.hip_x, robot.geometry.hip_y) if robot.primitives else footprint(robot)
        x, y = np.meshgrid(*([-half, 0.0, half] for half in reach))
        self._below = np.stack([x.ravel(), y.ravel()], axis=-1)  # spots under the trunk (9, 2) [m]
        self._window = round(1.0 / (robot.gait.frequency * period))
        self._returned: Array = np.zeros(batch)
        self._asked: Array = np.zeros(batch)
        self._errors: list[Array] = []
        self._upright: list[Mask] = []

    def record(self, view: View, reward: Array, upright: Mask) -> None:
        """Record a control period with its reward (B,), of the robots that are still `upright` (B,)."""
        position = view.state.position
        spots = position[:, None, :2] + self._below
        height = position[:, 2] - view.simulation.terrain.height(spots[..., 0], spots[..., 1]).mean(axis=1)
        velocity = (view.heading * view.state.linear_velocity[:, None, :2]).sum(-1)  # a matrix product rounds by batch
        turning, (roll, pitch, _) = view.state.angular_velocity[:, 2], view.attitude.T
        actual = np.stack([*velocity.T, turning, height, roll, pitch], axis=-1)
        commanded = view.setpoint[:, COMPARED]
        commanded[:, 3] += view.robot.nominal_height
        self._errors.append(np.where(upright[:, None], actual - commanded, 0.0))
        self._asked = np.where(upright, commanded[:, 0], 0.0)
        self._upright.append(upright.copy())
        self._returned += np.where(upright, reward, 0.0)

    @property
    def settled(self) -> bool:
        """Whether the last recorded period counts."""
        return len(self._upright) > self._unsettled

    def episodes(self, fell: Mask, lying: Mask, gait: Array) -> Episodes:
        """Return the sums over all periods. `fell`, `lying` (B,): which robots fell, and which began lying; `gait`: the
        sums (B,) of a GaitRecorder.
        """
        first = self._unsettled
        windows = np.lib.stride_tricks.sliding_window_view(np.stack(self._errors), self._window, axis=0)
        averages = windows[first:].mean(axis=-1)
        upright = np.stack(self._upright)[first + self._window - 1 :, :, None]
        return Episodes(
            fell=fell,
            lying=lying,
            strides=upright.sum(0)[:, 0].astype(np.float64),
            absolute=np.where(upright, np.abs(averages), 0.0).sum(0),
            signed=np.where(upright, averages, 0.0).sum(0),
            returned=self._returned,
            asked=self._asked,
            gait=gait,
        )


BATCH = 50  # more robots at once are slower, because their models no longer fit the processor's cache
GETTING_UP_BATCH = 10  # these episodes run one after the other
LARGEST_BATCH = 150_000  # control periods of all its robots, so that long episodes are shared among processes
PUSH_INTERVAL = 2.0  # [s]
KICK_TIME = 4.0  # [s] after the start


@dataclass(frozen=True)
class Trial:
    """`size` episodes of a scenario, driven by the policy `model`, or else by the expert: the `teacher`, or the trot.
    Equal trials give equal episodes in any process. Expert and policy get the same robots, terrains, commands and
    pushes.
    """

    robot: str
    scenario: Scenario
    seed: int
    number: int
    size: int
    model: PolicyModel | None = None
    teacher: PolicyModel | None = None

    @property
    def rate(self) -> float:
        """Of the policy, or of the expert [Hz]."""
        driver = self.model or self.teacher
        return driver.card.interface.rate if driver else RATE

    @property
    def periods(self) -> int:
        """Control periods of each episode."""
        return round(self.scenario.seconds * self.rate)

    def run(self) -> Episodes:
        """Run the episodes. The expert sees the true state, a policy only noisy measurements."""
        scenario, size, robot = self.scenario, self.size, load_robot(self.robot)
        if kind := scenario.getting_up:
            first = self.number * GETTING_UP_BATCH
            failures = [get_up(robot, kind, self.seed, first + index, self.model) for index in range(size)]
            fell, none, errors = np.array(failures) != "", np.zeros(size), np.zeros((size, 6))
            return Episodes(fell, np.ones(size, dtype=bool), none, errors, errors, none, none, no_sums(size))
        entropy = np.random.SeedSequence([self.seed, zlib.crc32(scenario.name.encode()), self.number])
        seed = int(entropy.generate_state(1)[0])
        terrain = scenario.build_terrain(self.number)
        shaper = self.model.command_shaper(size) if self.model else None  # the expert has the robot's limits
        driver = (self.model, shaper, self.teacher, self.rate)
        rollout = Rollout(robot, size, terrain, scenario.commands, scenario.randomization, seed, *driver)
        simulation, clock = rollout.simulation, rollout.shaper.clock
        period, gait = simulation.period, GaitRecorder(simulation)
        recorder = EpisodeRecorder(robot, size, period, scenario.settling)
        rewards = Rewards(load_task("velocity"), size, "score")
        push_period = round(PUSH_INTERVAL / period)
        lying_share = 0.0 if robot.lie_pose is None else scenario.lying_share
        lying = np.arange(size) % 2 < 2 * lying_share - 1e-9  # every second one for a half, all for one
        upright = ~begin_lying(rollout, lying, np.random.default_rng([seed, 4]))
        started = simulation.time
        for step in range(self.periods):
            seen = rollout.observe()
            upright &= ~simulation.fallen(seen.state)
            simulation.active &= upright
            wanted = rollout.act(seen)
            if step % push_period == push_period // 2:
                simulation.push_randomly(np.ones(size, dtype=bool), scenario.push)
            if step == round(KICK_TIME / period):
                simulation.kick(scenario.kick)
            sent = rollout.send(wanted, record=True)
            targets = (wanted, sent, rollout.limiter.previous if step else sent)
            period_of = (rollout.shaper.setpoint, clock.phase, clock.walking)
            view = View(simulation, seen.state, *period_of, *targets, rollout.recorded)
            recorder.record(view, rewards(view)[0], upright)
            gait.record(view, clock.frequency(view.setpoint), upright & recorder.settled)
        elapsed = simulation.time - started
        diverged = simulation.active & (elapsed < self.periods * period - simulation.time_step)  # MuJoCo reset it
        fell = ~upright | simulation.fallen(simulation.state()) | diverged
        return recorder.episodes(fell, lying, gait.sums)


def trials(
    robot: str,
    scenario: Scenario,
    episodes: int,
    seed: int,
    model: PolicyModel | None = None,
    teacher: PolicyModel | None = None,
) -> list[Trial]:
    """Split `episodes` x the scenario's share of episodes, at least one, into batches."""
    total = max(1, round(episodes * scenario.share))
    batch = GETTING_UP_BATCH if scenario.getting_up else BATCH
    one = Trial(robot, scenario, seed, 0, 1, model, teacher)
    largest = max(1, min(batch, round(LARGEST_BATCH / one.periods)))
    sizes = (min(largest, total - start) for start in range(0, total, largest))
    return [replace(one, number=number, size=size) for number, size in enumerate(sizes)]
