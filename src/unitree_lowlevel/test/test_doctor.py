"""The doctor distinguishes a healthy robot from every kind of faulty one, and moves none."""

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import GEN33, OFF, RemoteState, encode_remote
from unitree_lowlevel.doctor import program, robot_checks
from unitree_lowlevel.doctor.host_checks import Level, check_address, check_wake_up
from unitree_lowlevel.doctor.robot_checks import Recording, check_orientation, check_remote, record, watch_joints
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.fake_board.physics import JointPhysics
from unitree_lowlevel.io_process import lock_robot
from unitree_lowlevel.transport import WireTransport

SECONDS = 0.8  # the loss is known after 0.5


@pytest.fixture
def board():
    with FakeBoard(GEN33, JointPhysics(load_robot("aliengo"))) as board:
        yield board


@pytest.fixture
def examine(board, capsys, monkeypatch):
    """Run the program against the board; returns its exit code and what it said, by the name of the check."""

    def examine(*options: str, robot: str = "aliengo") -> tuple[int, dict[str, str]]:
        host, port = board.address
        words = ["doctor", "--target", host, "--port", str(port), "--local-port", "0", "--seconds", str(SECONDS)]
        monkeypatch.setattr(sys, "argv", [*words, *options, "--ros-args", "-r", "__node:=doctor"])
        code = program.main(robot)
        lines = [line for line in capsys.readouterr().out.split("\n\n")[0].splitlines() if line[:1] != " "]
        return code, {line[9:28].strip(): line for line in lines}

    return examine


@pytest.fixture
def transport(board):
    transport = WireTransport(GEN33, board.address, 0)
    transport.open()
    yield transport
    transport.close()


@pytest.fixture
def healthy(transport) -> Recording:
    return record(transport, 0.2)


def test_a_healthy_robot_passes_and_does_not_move(board, examine):
    code, lines = examine()
    assert code == 0, lines
    network, link = {"address", "port", "clock"}, {"answers", "rate", "loss", "tick"}
    assert network | link | {"joint limits"} <= set(lines)
    assert board.commands.count > 0
    for _, command in board.commands.recent:
        assert (command.mode == OFF).all()
        assert not np.concatenate([command.stiffness, command.damping, command.torque]).any()


@pytest.mark.parametrize("runs_free", [True, False])
@pytest.mark.parametrize("poll", [0.0003, 0.003], ids=["in time", "late"])
def test_kind_and_loss_of_a_board_are_known_also_if_this_computer_is_late(
    board, transport, monkeypatch, runs_free, poll
):
    board._free_running = runs_free
    board.faults = BoardFaults(loss=0.4)
    monkeypatch.setattr(robot_checks, "_POLL", poll)
    recording = record(transport, 1.5 * SECONDS)
    caused = board.states_sent if runs_free else transport.counters.sent  # a lost command has no state
    assert recording.runs_free == runs_free
    assert recording.loss == pytest.approx(1.0 - transport.counters.received / caused, abs=0.12)


@pytest.mark.parametrize(
    ("faults", "check", "named"),
    [
        (BoardFaults(silence=True), "answers", ""),
        (BoardFaults(other_generation=True), "answers", "--generation gen38"),
        (BoardFaults(silence=True, foreign_source=True), "answers", "127.0.0.1"),
        (BoardFaults(foreign_source=True), "sources", "127.0.0.1"),
        (BoardFaults(corruption=0.5), "integrity", "checksum"),
        (BoardFaults(not_finite=True), "integrity", ""),
        (BoardFaults(loss=0.4), "loss", ""),
        (BoardFaults(frozen_tick=True), "tick", ""),
        (BoardFaults(outside_limits=True), "joint limits", "FR_calf_joint"),
        (BoardFaults(velocity_spike=40.0), "joint speed", "FL_thigh_joint"),
        (BoardFaults(temperature=95.0), "temperature", "FR_hip_joint"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "+".join(value.active()),
)
def test_a_faulty_robot_fails_the_check_of_its_fault(board, examine, faults, check, named):
    board.faults = faults
    code, lines = examine()
    assert code == 1
    assert lines[check].startswith("FAILED"), lines
    assert named in lines[check]


@pytest.fixture
def later(board):
    """Begin faults of the board a while after this call."""
    return lambda **faults: threading.Timer(0.25, setattr, (board, "faults", BoardFaults(**faults))).start()


def test_a_second_board_that_joins_is_noticed(later, examine):
    later(other_robot=True)
    code, lines = examine()
    assert code == 1
    assert lines["identity"].startswith("FAILED")


@pytest.mark.parametrize(
    ("options", "check"),
    [
        (["--target", "192.168.123.999"], "network"),
        (["--local-port", "{taken}"], "port"),
        ([], "robot"),  # a bridge moves it, whatever its port
    ],
)
def test_with_a_wrong_address_a_port_in_use_or_a_bridge_nothing_is_sent(board, examine, taken_port, options, check):
    with lock_robot(board.address):
        code, lines = examine(*(option.format(taken=taken_port) for option in options))
    assert code == 1
    assert lines[check].startswith("FAILED")
    assert "answers" not in lines
    assert board.commands.count == 0


def test_a_robot_behind_a_router_fails_before_anything_is_sent_and_a_slow_computer_is_a_warning():
    assert check_address("192.168.123.10", "10.0.0.5").level is Level.FAILED
    assert check_address("192.168.123.10", "192.168.123.162").level is Level.OK
    assert check_wake_up(np.full(100, 0.5)).level is Level.WARNING


def test_a_quaternion_in_the_wrong_order_is_found(healthy):
    for wrong in (np.array([0.38, 0.0, 0.0, 0.92]), np.roll(healthy.states[-1].orientation, 1), np.zeros(4)):
        state = replace(healthy.states[-1], orientation=wrong)
        assert check_orientation(replace(healthy, states=[state])).level is Level.FAILED
    assert check_orientation(healthy).level is Level.OK


def test_a_remote_in_use_is_a_warning(healthy):
    def checked(remote: bytes):
        return check_remote(replace(healthy, states=[replace(healthy.states[-1], remote=remote)]))

    at_rest = b"\x01" + encode_remote(RemoteState())[1:]
    assert checked(at_rest).level is Level.OK
    assert "A" in checked(encode_remote(RemoteState(buttons=frozenset({"A"})))).message
    assert checked(bytes(40)).level is Level.WARNING


def test_a_joint_moved_by_hand_is_named(later, transport, capsys):
    later(outside_limits=True)
    watch_joints(transport, 0.8)
    named = {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]}
    assert named == {f"{leg}_calf_joint" for leg in ("FR", "FL", "RR", "RL")}
