"""Whatever comes in, no command leaves that is not finite, within limits, slow enough and soft enough."""

import contextlib
import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from low_level_samples import STOP_PRESSED, healthy_state

from fcnet_core.errors import FcnetError
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import DAMPING_STEP, POSITION_STOP, STEPS
from unitree_lowlevel.driver import DriverMode, MotorDriver
from unitree_lowlevel.safety.checks import least_damping
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
requests = st.sampled_from(["activate", "deactivate", "reset", "stop", "gains"])
sources = st.sampled_from(["", "walker", "intruder"])
speeds = st.lists(st.floats(-25.0, 25.0), min_size=12, max_size=12)
ages = st.one_of(st.just(0.0), st.floats(-1.0, 1.0), anything)
events = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 60)),
        st.tuples(st.just("target"), st.tuples(targets, sources, ages)),
        st.tuples(st.just("follow"), st.tuples(st.floats(-0.05, 0.05), sources, st.integers(1, 400), speeds)),
        st.tuples(st.just("damp"), sources),
        st.tuples(st.just("state"), st.one_of(st.none(), readings)),
        st.tuples(st.just("pass"), st.floats(0.0, 3.0)),
        st.tuples(requests, st.tuples(anything, anything)),
    ),
    max_size=30,
)


class EventPlayer:
    """Plays events to a driver and looks at every command."""

    def __init__(self, name):
        self.robot = load_robot(name)
        self.driver = MotorDriver(self.robot, PERIOD, stop_chords=[STOP_PRESSED.buttons])
        self.healthy = healthy_state(self.robot)
        self.counters = TransportCounters()
        self.now, self.tick = 50.0, 0
        self.accepted = float("-inf")  # arrival of the newest target that was followed, no later than now
        self.last = None
        self.stiff = 0
        first = self.driver.cycle(self.now, None, self.counters)
        self.act("activate", None)
        self.act("follow", (0.0, "", 1, [0.0] * 12))  # before the first state
        assert not first.stiffness.any()
        assert not self.stiff
        self.act("run", 50)

    def act(self, kind, value):
        driver = self.driver
        self.forget()
        if kind == "damp":
            owner, following = driver.owner, driver.mode is DriverMode.FOLLOWING
            refused = following and value != owner
            assert (driver.damp(value) is not None) == refused
            assert (driver.mode is DriverMode.FOLLOWING, driver.owner) == (refused, owner if refused else "")
        elif kind == "run":
            for _ in range(value):
                self.cycle({})
        elif kind == "state":
            self.cycle(value)
        elif kind == "pass":
            self.now += value
        elif kind == "target":
            self.send(*value)
        elif kind == "follow":
            shift, source, cycles, velocity = value
            self.act("damp", source)
            for _ in range(0, cycles, 20):
                self.send(shift, source, 0.0)
                self.act("run", min(cycles, 20))
            self.cycle({"velocity": velocity, "position": 5.0 * shift})
        elif kind == "reset":
            with contextlib.suppress(FcnetError):
                driver.reset(self.now)
        elif kind == "stop":
            driver.emergency_stop("a test")
        elif kind == "gains":
            driver.set_gains(*value)
        else:
            getattr(driver, kind)()

    def forget(self):
        """Whoever follows again begins softly where the joints are."""
        if self.driver.mode is not DriverMode.FOLLOWING:
            self.last = None

    def send(self, value, source, age):
        self.forget()
        driver, owner = self.driver, self.driver.owner
        following = driver.mode is DriverMode.FOLLOWING
        position = self.robot.lie_pose + value if isinstance(value, float) else np.array(value)
        refusal = driver.set_targets(position, self.now - age, source)
        if refusal is None:
            assert driver.owner == source
            assert not following or owner == source
            if not following:
                self.last = np.clip(driver.state.position, self.robot.lower, self.robot.upper)
            self.accepted = max(self.accepted, min(self.now - age, self.now + PERIOD))
        else:
            assert driver.owner in ("", owner)

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
        self.stiff += command.stiffness.any()
        assert self.now - self.accepted <= safety.command_timeout + PERIOD
        measured, velocity = self.driver.state.position, self.driver.state.velocity
        assert ((robot.lower <= command.position) & (command.position <= robot.upper)).all()
        assert np.abs(command.position - self.last).max() <= safety.max_target_rate * PERIOD + 1e-9
        least = least_damping(robot, command.stiffness)
        assert (np.floor(command.damping * STEPS[4, 0]) / STEPS[4, 0] >= least - DAMPING_STEP * 1e-6).all()
        asked = np.abs(command.stiffness * (command.position - measured) - command.damping * velocity)
        slow = np.abs(velocity) <= 2.0 * robot.velocity_limit  # what is faster is no velocity of these motors
        assert (asked <= robot.torque_limit * (1 + 1e-9))[slow].all()
        self.last = command.position


@given(name=st.sampled_from(["aliengo", "a1"]), events=events)
@settings(max_examples=150)
def test_no_input_makes_the_driver_raise_or_send_what_it_must_not(name, events):
    player = EventPlayer(name)
    for kind, value in events:
        player.act(kind, value)


@given(
    name=st.sampled_from(["aliengo", "a1"]),
    steps=st.lists(st.lists(st.floats(-0.3, 0.3), min_size=12, max_size=12), min_size=5, max_size=30),
    every=st.integers(1, 15),
)
def test_no_targets_make_it_send_what_it_must_not(name, steps, every):
    player = EventPlayer(name)
    goal = player.robot.lie_pose
    player.act("damp", "")
    player.act("target", (0.0, "", 0.0))
    player.act("run", 1)
    for step in steps:
        goal = goal + np.array(step)
        player.act("target", (goal.tolist(), "", 0.0))
        player.act("run", every)
    assert player.stiff > 0
