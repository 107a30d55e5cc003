"""Whatever comes in, no command leaves that is not finite, within limits, slow enough and soft enough."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fcnet_core import FcnetError
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import POSITION_STOP
from unitree_lowlevel.driver import DriverMode, MotorDriver
from unitree_lowlevel.transport import Reception, TransportCounters

PERIOD = 0.002
anything = st.floats(allow_nan=True, allow_infinity=True)
mostly_sane = st.one_of(st.floats(-4.0, 4.0), anything)
targets = st.one_of(
    st.floats(-0.5, 0.5),  # the lying pose, shifted
    st.lists(st.floats(-5.0, 5.0), min_size=12, max_size=12),
    st.lists(anything, min_size=1, max_size=13),
)
readings = st.fixed_dictionaries(
    {},
    optional={
        "position": st.one_of(st.floats(-0.05, 0.05), st.lists(mostly_sane, min_size=12, max_size=12)),
        "velocity": st.lists(mostly_sane, min_size=12, max_size=12),
        "torque": st.lists(mostly_sane, min_size=12, max_size=12),
        "temperature": st.lists(anything, min_size=12, max_size=12),
        "orientation": st.lists(mostly_sane, min_size=4, max_size=4),
        "angular_velocity": st.lists(anything, min_size=3, max_size=3),
        "tick": st.integers(0, 2**32 - 1),
        "remote": st.binary(max_size=41),
        "identity": st.tuples(st.integers(0, 1), st.integers(0, 1)),
    },
)
requests = st.sampled_from(["damp", "activate", "deactivate", "reset", "stop", "gains"])
events = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 60)),
        st.tuples(st.just("target"), targets),
        st.tuples(st.just("state"), st.one_of(st.none(), readings)),
        st.tuples(st.just("pass"), st.floats(0.0, 3.0)),
        st.tuples(requests, st.tuples(anything, anything)),
    ),
    max_size=30,
)


class EventPlayer:
    """Plays events to a driver and looks at every command."""

    def __init__(self, name, state_of):
        self.robot = load_robot(name)
        self.driver = MotorDriver(self.robot, PERIOD, stop_chords=[frozenset({"L2", "B"})])
        self.healthy = state_of(self.robot)
        self.counters = TransportCounters()
        self.now, self.tick = 50.0, 0
        self.last = None
        self.stiff = 0
        self.act("activate", None)
        self.act("run", 50)

    def act(self, kind, value):
        driver = self.driver
        if kind in ("damp", "deactivate", "stop"):
            self.last = None  # whoever follows again begins softly where the joints are
        if kind == "run":
            for _ in range(value):
                self.cycle({})
        elif kind == "state":
            self.cycle(value)
        elif kind == "pass":
            self.now += value
        elif kind == "target":
            position = self.robot.lie_pose + value if isinstance(value, float) else np.array(value)
            assert isinstance(driver.set_targets(position, self.now), str | None)
        elif kind == "reset":
            with contextlib.suppress(FcnetError):
                driver.reset(self.now)
        elif kind == "stop":
            driver.emergency_stop("a test")
        elif kind == "gains":
            driver.set_gains(*value)
        else:
            getattr(driver, kind)()

    def cycle(self, reading):
        self.now += PERIOD
        self.tick += 2
        reception = None
        if reading is not None:
            self.counters.received += 1
            fields = {name: np.array(value) if isinstance(value, list) else value for name, value in reading.items()}
            if isinstance(reading.get("position"), float):
                fields["position"] = self.robot.lie_pose + reading["position"]
            state = replace(self.healthy, **{"tick": self.tick, **fields})
            state = replace(state, linear_acceleration=np.array([0.0, 1e-3 * math.sin(self.tick), 9.81]))
            reception = Reception(state, self.now)
        self.check(self.driver.cycle(self.now, reception, self.counters))

    def check(self, command):
        robot, safety = self.robot, self.robot.safety
        values = (command.position, command.velocity, command.torque, command.stiffness, command.damping)
        assert np.isfinite(np.concatenate(values)).all()
        assert not command.velocity.any()
        assert not command.torque.any()
        assert ((command.stiffness >= 0) & (command.stiffness <= safety.max_kp)).all()
        assert ((command.damping >= 0) & (command.damping <= safety.max_kd)).all()
        if self.driver.mode is not DriverMode.FOLLOWING:
            assert not command.stiffness.any()
            assert (command.position == POSITION_STOP).all()
            self.last = None
            return
        self.stiff += 1
        measured = self.driver.state.position
        if self.last is None:
            self.last = np.clip(measured, robot.lower, robot.upper)
        assert ((robot.lower <= command.position) & (command.position <= robot.upper)).all()
        assert np.abs(command.position - self.last).max() <= safety.max_target_rate * PERIOD + 1e-9
        asked = command.stiffness * np.abs(command.position - measured)
        assert (asked <= robot.torque_limit * (1 + 1e-9)).all()
        self.last = command.position


@given(name=st.sampled_from(["aliengo", "a1"]), events=events)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_input_makes_the_driver_raise_or_send_what_it_must_not(state_of, name, events):
    player = EventPlayer(name, state_of)
    for kind, value in events:
        player.act(kind, value)


@given(
    name=st.sampled_from(["aliengo", "a1"]),
    steps=st.lists(st.lists(st.floats(-0.3, 0.3), min_size=12, max_size=12), min_size=5, max_size=30),
    every=st.integers(1, 15),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_targets_make_it_send_what_it_must_not(state_of, name, steps, every):
    player = EventPlayer(name, state_of)
    goal = player.robot.lie_pose
    player.act("damp", None)
    player.act("target", 0.0)
    player.act("run", 1)
    for step in steps:
        goal = goal + np.array(step)
        player.act("target", goal.tolist())
        player.act("run", every)
    assert player.stiff > 0
