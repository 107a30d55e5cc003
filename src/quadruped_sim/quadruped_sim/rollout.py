"""Simulation, commands and expert, advancing together for collection, evaluation and training."""

from typing import NamedTuple

import numpy as np

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.control.command import CommandShaper
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import SimulationError
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import PolicyInterface, SensorErrors, velocity_interface
from fcnet_core.observation.sensors import sensors_of
from fcnet_core.policy import load_policy
from fcnet_core.robot import Robot
from quadruped_sim.physics.body import RATE, Samples
from quadruped_sim.physics.randomization import Randomization
from quadruped_sim.physics.simulation import BodyState, Simulation
from quadruped_sim.physics.terrain import Terrain
from quadruped_sim.tasks.setpoints import SetpointRanges, SetpointSource
from quadruped_sim.teacher.expert import TeacherExpert
from quadruped_sim.trot_expert import TrotExpert


class ActionNoise:
    """Noise on the actions of robots, correlated over a few control periods; each robot draws its standard deviation,
    at most `largest`.
    """

    MEMORY = 0.7  # of the noise, from one control period to the next
    STUDENT_SHARE = 0.3  # of the noise that a student gets on its own actions

    def __init__(self, batch: int, largest: float, rng: np.random.Generator) -> None:
        self._rng, self._scale = rng, rng.random((batch, 1)) * largest
        self._noise: Array = np.zeros((batch, 1))

    def disturb(self, advice: Array, own: Array | None, driven: Mask) -> Array:
        """Return the actions (B, N) of the next control period: an expert's advice, or a student's `own` where it is
        given and `driven` (B, 1), both with noise.
        """
        fresh = self._rng.standard_normal(advice.shape) * self._scale
        self._noise = self.MEMORY * self._noise + np.sqrt(1 - self.MEMORY**2) * fresh
        action = advice + self._noise
        return action if own is None else np.where(driven, own + self.STUDENT_SHARE * self._noise, action)

    def reset(self, mask: Mask) -> None:
        """Start at zero for the robots in `mask` (B,)."""
        self._noise[mask] = 0.0


class Situation(NamedTuple):
    """Start of a control period: true state, and the observation (B, n) that has arrived, see Simulation.signals,
    without the errors of the sensors, valid for robots that have not fallen.
    """

    state: BodyState
    observation: Single


class Rollout:
    """`batch` robots on a terrain that follow setpoints, each behind the same runner as on a robot.

    The policy of `model` drives them by noisy measurements; without a model the expert does, by the true state. It is
    the `teacher`, or else the trot. shaper: of the commands; None for the robot's own ranges. rate [Hz]: of the expert;
    that of the model if there is one. interface: of a policy that steps elsewhere, see `runner.decode`; its
    commands and rate take the place of the robot's. Raises SimulationError if a teacher has another rate.
    """

    def __init__(
        self,
        robot: Robot,
        batch: int,
        terrain: Terrain,
        setpoints: SetpointRanges,
        randomization: Randomization,
        seed: int,
        model: PolicyModel | None = None,
        shaper: CommandShaper | None = None,
        teacher: PolicyModel | None = None,
        rate: float = RATE,
        interface: PolicyInterface | None = None,
    ) -> None:
        own = interface or velocity_interface(robot, model.card.interface.rate if model else rate)
        interface = model.card.interface if model else own
        period = 1.0 / interface.rate
        if teacher and not np.isclose(at := teacher.card.interface.rate, interface.rate):
            what = "choose a teacher of that rate"
            raise SimulationError(f"the teacher acts at {at:g} Hz, but is asked at {interface.rate:g} Hz; {what}")
        self.simulation = Simulation(robot, batch, terrain, seed, randomization, period)
        self.shaper = shaper or CommandShaper.of(own, batch)
        self.limiter = JointLimiter(robot, period, batch)
        self.limiter.start(self.simulation.state().joint_position)
        policy = load_policy(model, batch=batch) if model else None
        self.runner = PolicyRunner(policy, interface, self.limiter, shaper=self.shaper)
        self._drives = model is not None
        self._trot: TrotExpert | None = None
        self._teacher = TeacherExpert(teacher, robot, self.shaper, self.limiter) if teacher else None
        self._source = SetpointSource(setpoints, batch, period, np.random.default_rng([seed, 1]))
        (name, spec), *_ = interface.spec.items()
        scale, rng = randomization.noise * interface.scales(name), np.random.default_rng([seed, 2])
        self._sensors = SensorErrors(sensors_of(randomization.sensors), spec, rng, batch, scale)
        self.recorded: Samples = {}

    def observe(self, new_command: bool = True) -> Situation:
        """Step the commands, unless they stay those of the last period, and observe the robots."""
        state = self.simulation.state()
        if new_command:
            self.runner.take_command(self._source.step())
        observation = self.runner.observe(self.simulation.signals(state=state))
        return Situation(state, observation)

    def sense(self, seen: Situation) -> Single:
        """Return the observation (B, n) with the errors of the sensors; call it once in a control period."""
        return self._sensors.measure(seen.observation[None], self.simulation.period)[0].astype(np.float32, copy=False)

    def act(self, seen: Situation) -> Array:
        """Return the position targets (B, N) [rad] that the policy wants, or else the expert's advice."""
        return self.runner.act(self.sense(seen)) if self._drives else self.advise(seen)

    def advise(self, seen: Situation) -> Array:
        """Return the expert's position targets (B, N) [rad]; call it in every control period or never.

        Raises FcnetError if the expert is the trot and the robot has no legs of known lengths.
        """
        if self._teacher:
            return self._teacher.act(seen.state, self.simulation)
        if self._trot is None:
            self._trot = TrotExpert(self.simulation.robot, self.simulation.batch, self.simulation.period)
        return self._trot.act(seen.state, self.shaper)

    def send(self, wanted: Array, record: bool = False) -> Array:
        """Send position targets (B, N) [rad] within limits and slew, which are returned, and let one control period
        pass; record: set `recorded`, see Simulation.step.
        """
        targets = self.runner.send(wanted)
        self.recorded = self.simulation.step(targets, record)
        return targets

    def restart(self, mask: Mask) -> None:
        """Reset the robots in `mask` (B,) with all their state."""
        self.simulation.reset(mask)
        self.runner.reset(mask)
        self._sensors.reset(mask)
        if self._trot:
            self._trot.reset(mask)
        self.limiter.start(self.simulation.state().joint_position, mask)
