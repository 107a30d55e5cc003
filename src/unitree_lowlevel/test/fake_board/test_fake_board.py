"""The fake board over a real socket: what it answers and each of its faults; and its joints, which weigh nothing."""

import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from low_level_samples import command

from fcnet_core.robot import load_robot
from fcnet_core.rotation import roll_pitch_yaw
from unitree_lowlevel.codec import (
    GEN33,
    GEN38,
    GENERATIONS,
    OFF,
    PERIOD,
    POSITION_STOP,
    SERVO,
    VELOCITY_STOP,
    Generation,
    LowCommand,
    LowState,
    RemoteState,
    decode_remote,
    decode_state,
    encode_command,
)
from unitree_lowlevel.fake_board.board import FakeBoard, motor_terms
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.fake_board.physics import STOP_MARGIN, JointPhysics
from unitree_lowlevel.transport import WireTransport

ALIENGO = load_robot("aliengo")
PATIENCE = 20.0  # [s], for a loaded machine
SILENT = 0.2  # [s] without a datagram that is taken for silence
HOLD = command(position=ALIENGO.stand_pose, stiffness=np.full(12, 60.0), damping=np.full(12, 2.0))
DAMP = replace(HOLD, stiffness=np.zeros(12))


class Rig:
    """A running board and a program's transport before it."""

    def __init__(self, generation: Generation = GEN33, **options: Any) -> None:
        self.board = FakeBoard(generation, JointPhysics(ALIENGO), **options)
        self.board.start()
        self._transport = WireTransport(generation, self.board.address, 0)
        self._transport.open()
        self.counters = self._transport.counters

    def send(self, command: LowCommand = HOLD) -> None:
        self._transport.send(command)

    def state(self) -> LowState:
        """The next state; waits for it."""
        return self.until(lambda state: True)

    def new_state(self) -> LowState:
        """A state that was made after this call."""
        self._transport.receive()
        self.state()
        return self.state()

    def until(self, condition: Callable[[LowState], bool]) -> LowState:
        """The first state for which the condition holds."""
        deadline = time.monotonic() + PATIENCE
        while (reception := self._transport.receive()) is None or not condition(reception.state):
            assert time.monotonic() < deadline
            select.select([self._transport], [], [], 0.1)
        return reception.state

    def is_silent(self) -> bool:
        time.sleep(0.05)
        self._transport.receive()
        time.sleep(SILENT)
        return self._transport.receive() is None

    def close(self) -> None:
        self._transport.close()
        self.board.stop()


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(**getattr(request, "param", {}))
    yield rig
    rig.close()


@pytest.mark.parametrize("rig", [{"generation": each} for each in GENERATIONS.values()], ids=GENERATIONS, indirect=True)
def test_it_is_silent_before_a_command_and_then_500_states_a_second_with_its_own_time(rig):
    assert rig.is_silent()
    rig.send()
    first, before = rig.state().tick, rig.counters.received
    last = rig.until(lambda state: state.tick >= first + 400).tick
    assert last - first == 2 * (rig.counters.received - before)  # milliseconds, none left out


@pytest.mark.parametrize("rig", [{"free_running": False}], indirect=True)
def test_a_board_that_only_answers_sends_one_state_for_each_command(rig):
    for _ in range(20):
        rig.send()
        rig.state()
    assert rig.is_silent()
    assert rig.board.states_sent == 20


def test_states_go_to_the_sender_of_the_last_good_command_that_was_not_lost(rig):
    rig.send()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.settimeout(PATIENCE)
        other.sendto(b"hello", rig.board.address)
        rig.new_state()
        rig.board.faults = BoardFaults(loss=1.0)
        other.sendto(encode_command(GEN33, HOLD), rig.board.address)
        assert rig.is_silent()
        rig.board.faults = BoardFaults()
        assert rig.board.commands.count == 2
        rig.new_state()
        other.sendto(encode_command(GEN33, HOLD), rig.board.address)
        decode_state(GEN33, other.recv(2048))
        assert rig.is_silent()


def test_bad_commands_are_counted_and_move_nothing(rig):
    rig.send(DAMP)
    resting, good = rig.state().position, encode_command(GEN33, HOLD)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for bad in (good[:-1] + bytes([good[-1] ^ 1]), good[:-1], encode_command(GEN38, HOLD)):
            other.sendto(bad, rig.board.address)
    rig.until(lambda state: rig.board.commands.bad.total() == 3)
    assert rig.board.commands.bad == {"checksum": 1, "size": 1, "generation": 1}
    np.testing.assert_allclose(rig.new_state().position, resting, atol=0.01)


def test_a_restart_begins_the_boards_time_again_and_waits_for_a_command(rig):
    rig.send()
    rig.until(lambda state: state.tick > 1500)
    rig.board.restart()
    time.sleep(0.1)
    assert rig.is_silent()
    rig.send()
    assert rig.state().tick < 1500


PRESSED = RemoteState(frozenset({"L2", "B"}), lx=0.5)
CONTENT_FAULTS: list[tuple[dict[str, Any], Callable[[LowState], bool]]] = [
    ({"tilt": (1.2, 0.0)}, lambda state: roll_pitch_yaw(state.orientation)[0] == pytest.approx(1.2, abs=0.01)),
    ({"tilt": (np.pi / 2, 0.0)}, lambda state: state.linear_acceleration[1] == pytest.approx(9.81, abs=0.2)),
    ({"joint_offset": 0.5}, lambda state: state.position[1] > ALIENGO.lie_pose[1] + 0.4),
    ({"spin": 6.0}, lambda state: np.abs(state.angular_velocity).max() > 5.0),
    ({"velocity_spike": 50.0, "spike_share": 0.3}, lambda state: np.abs(state.velocity).max() > 40.0),
    ({"torque_offset": 60.0}, lambda state: (np.abs(state.torque) > 50.0).all()),
    ({"power": 3000.0}, lambda state: np.abs(state.torque * state.velocity).sum() == pytest.approx(3000.0, rel=0.01)),
    ({"remote": PRESSED}, lambda state: decode_remote(state.remote) == PRESSED),
]


@pytest.mark.parametrize(("fault", "shows"), CONTENT_FAULTS)
def test_faults_of_content_come_and_go(rig, fault, shows):
    rig.send(DAMP)
    assert not shows(rig.state())
    rig.board.faults = BoardFaults(**fault)
    rig.until(shows)
    rig.board.faults = BoardFaults()
    rig.until(lambda state: not shows(state))


def test_a_frozen_tick_leaves_the_sensors_alive_and_a_frozen_state_the_tick(rig):
    rig.send(DAMP)
    rig.board.faults = BoardFaults(frozen_tick=True)
    first, second = rig.new_state(), rig.new_state()
    assert first.tick == second.tick
    assert (first.angular_velocity != second.angular_velocity).any()
    rig.board.faults = BoardFaults(frozen_state=True)
    first, second = rig.new_state(), rig.new_state()
    assert first.tick < second.tick
    for name in ("position", "velocity", "torque", "angular_velocity", "linear_acceleration"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("fault", ["blocked_joint", "dead_motor"])
def test_a_blocked_joint_or_a_dead_motor_does_not_follow_until_the_fault_ends(rig, fault):
    rig.board.faults = BoardFaults(**{fault: "FL_thigh_joint"})
    rig.send(HOLD)
    others = [joint for joint in range(12) if joint != 4]
    target = ALIENGO.stand_pose
    state = rig.until(lambda state: bool(np.allclose(state.position[others], target[others], atol=0.01)))
    assert state.position[4] == pytest.approx(ALIENGO.lie_pose[4], abs=0.02)
    assert (state.mode[others] == SERVO).all()
    assert state.mode[4] == (OFF if fault == "dead_motor" else SERVO)
    assert (state.torque[4] == 0.0) == (fault == "dead_motor")
    rig.board.faults = BoardFaults()
    rig.send(HOLD)
    rig.until(lambda state: bool(np.allclose(state.position, target, atol=0.01)))


@pytest.fixture
def physics(robot) -> JointPhysics:
    return JointPhysics(robot, noise=0.0)


def sensed(physics: JointPhysics, given: LowCommand, cycles: int = 1) -> SimpleNamespace:
    physics.drive(*motor_terms(given))
    for _ in range(cycles):
        physics.advance(PERIOD)
    return SimpleNamespace(**physics.sense())


@pytest.mark.parametrize(
    "given",
    [
        command(position=np.full(12, POSITION_STOP), stiffness=np.full(12, 50.0)),
        command(velocity=np.full(12, VELOCITY_STOP), damping=np.full(12, 5.0)),
        command(mode=np.full(12, OFF, np.uint8), torque=np.full(12, 5.0), stiffness=np.full(12, 50.0)),
    ],
    ids=["position stop", "velocity stop", "off"],
)
def test_the_vendors_special_values_switch_their_term_off(physics, given):
    state = sensed(physics, given)
    np.testing.assert_array_equal(state.torque, 0.0)


def test_the_largest_gains_of_the_wire_stay_stable_and_within_torque_limits(physics, robot):
    wild = command(position=robot.stand_pose, stiffness=np.full(12, 1023.9), damping=np.full(12, 2047.9))
    for _ in range(500):
        state = sensed(physics, wild)
        assert (np.abs(state.torque) <= robot.torque_limit).all()
        assert (np.abs(state.velocity) < 50.0).all()


def test_joints_end_at_mechanical_stops_outside_the_vendors_limits(physics, robot):
    state = sensed(physics, command(torque=np.full(12, 30.0)), 1000)
    np.testing.assert_allclose(state.position, robot.upper + STOP_MARGIN)
    np.testing.assert_array_equal(state.velocity, 0.0)
