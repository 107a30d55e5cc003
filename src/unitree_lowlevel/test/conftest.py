"""The two robots, their states, and a driver with an ideal robot behind it."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from low_level_samples import STOP_PRESSED, healthy_state

from fcnet_core.robot import Robot, load_robot
from unitree_lowlevel.codec import LowCommand
from unitree_lowlevel.driver import DriverMode, MotorDriver
from unitree_lowlevel.transport import Reception, TransportCounters

PERIOD = 0.002
NOISE = {"position": 1e-9, "orientation": 1e-3, "angular_velocity": 1e-3, "linear_acceleration": 1e-3}


@pytest.fixture(params=["aliengo", "a1"])
def robot(request: pytest.FixtureRequest) -> Robot:
    return load_robot(request.param)


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A UDP port that another program has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        yield other.getsockname()[1]


class Bench:
    """A driver in front of an ideal robot: its joints are where the last stiff command wanted them.

    `state` holds what its sensors say otherwise than a healthy robot's; `silent` keeps its states back, `frozen` its
    tick, `constant` the sensors named. tick: of the board.
    """

    def __init__(self, robot: Robot, **options: Any) -> None:
        self.robot = robot
        self.driver = MotorDriver(robot, PERIOD, stop_chords=[STOP_PRESSED.buttons], **options)
        self.counters = TransportCounters()
        self.now = 100.0
        self.position = self._last_position = robot.lie_pose.copy()
        self.state: dict[str, Any] = {}
        self.silent = self.frozen = False
        self.constant: set[str] = set()
        self._slip = 0, 0.0
        self.sent: list[LowCommand] = []
        self._cycles = self.tick = 0
        self._rng = np.random.default_rng(0)

    def cycle(self) -> LowCommand:
        """One cycle."""
        self.now += PERIOD
        self._cycles += 1
        if not self.frozen:
            self.tick += 2
        self.sent.append(self.driver.cycle(self.now, None if self.silent else self._reception(), self.counters))
        if self.sent[-1].stiffness.any():
            self.position = self.sent[-1].position.copy()
        return self.sent[-1]

    def run(
        self, seconds: float, targets: np.ndarray | None = None, rate: float = 50.0, source: str = ""
    ) -> LowCommand:
        """Cycles, with targets of a source sent at `rate` [Hz]; the last command."""
        every = round(1.0 / (rate * PERIOD))
        for number in range(max(1, round(seconds / PERIOD))):
            if targets is not None and number % every == 0:
                self.send(targets, source)
            command = self.cycle()
        return command

    def send(self, targets: np.ndarray, source: str = "", age: float = 0.0) -> str | None:
        """Send targets that arrived `age` [s] ago; why they are refused."""
        return self.driver.set_targets(np.array(targets), self.now - age, source)

    def slip(self, joint: int, angle: float) -> None:
        """Shift what the encoder of a joint says by a further angle [rad]."""
        self._slip = joint, self._slip[1] + angle

    def awake(self):
        """Active, with a state, and ready for targets."""
        self.driver.activate()
        self.run(0.1)
        self.driver.damp()
        self.run(0.002)
        return self

    def following(self):
        """At full stiffness, holding its pose."""
        self.awake().run(0.7, self.position)
        assert self.driver.mode is DriverMode.FOLLOWING, self.driver.warnings
        return self

    @property
    def damped(self) -> bool:
        """Whether the last command holds nothing and resists motion."""
        last = self.sent[-1]
        return not last.stiffness.any() and (last.damping == self.robot.gains.damping).all() and not last.torque.any()

    def _reception(self) -> Reception:
        self.counters.received += 1
        self.counters.duplicates += self.frozen
        velocity, self._last_position = (self.position - self._last_position) / PERIOD, self.position
        state = healthy_state(self.robot, position=self.position, velocity=velocity, tick=self.tick)
        state = replace(state, **self.state)
        for name, size in NOISE.items():
            if name not in self.constant:
                value = getattr(state, name)
                state = replace(state, **{name: value + size * self._rng.standard_normal(len(value))})
        state.position[self._slip[0]] += self._slip[1]
        return Reception(state, self.now)


@pytest.fixture
def bench(robot: Robot) -> Bench:
    return Bench(robot)


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    return Bench
