"""The doctor distinguishes a healthy robot from every kind of faulty one, and moves none."""

from __future__ import annotations

import socket
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import GEN33, OFF, RemoteState, encode_remote
from unitree_lowlevel.doctor import program
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
def healthy(board) -> Recording:
    return recorded(board)


def recorded(board: FakeBoard) -> Recording:
    transport = WireTransport(GEN33, board.address, 0)
    transport.open()
    recording = record(transport, 0.2)
    transport.close()
    return recording


def test_a_healthy_robot_passes_and_does_not_move(board, examine):
    code, lines = examine()
    assert code == 0, lines
    network, link = {"address", "port", "clock"}, {"answers", "rate", "loss", "tick"}
    assert network | link | {"joint limits"} <= set(lines)
    assert board.commands.count > 0
    for _, command in board.commands.recent:
        assert (command.mode == OFF).all()
        assert not np.concatenate([command.stiffness, command.damping, command.torque]).any()


def test_a_board_that_only_answers_is_distinguished_from_one_that_runs_free(healthy):
    with FakeBoard(GEN33, JointPhysics(load_robot("aliengo")), free_running=False) as answering:
        assert not recorded(answering).runs_free
    assert healthy.runs_free


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


def test_a_second_board_that_joins_is_noticed(board, examine):
    timer = threading.Timer(0.25 * SECONDS, lambda: setattr(board, "faults", BoardFaults(other_robot=True)))
    timer.start()
    code, lines = examine()
    assert code == 1
    assert lines["identity"].startswith("FAILED")


@pytest.mark.parametrize("address", ["192.168.123.999", "no-such-robot.invalid", "0.0.0.0"])
def test_a_wrong_address_fails_at_once(examine, address):
    code, lines = examine("--target", address)
    assert code == 1
    assert lines["network"].startswith("FAILED")
    assert "answers" not in lines


def test_a_port_in_use_sends_nothing(board, examine):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        code, lines = examine("--local-port", str(other.getsockname()[1]))
    assert code == 1
    assert lines["port"].startswith("FAILED")
    assert board.commands.count == 0


def test_a_robot_that_a_bridge_moves_gets_nothing_whatever_its_port(board, examine):
    with lock_robot(board.address):
        code, lines = examine()
    assert code == 1
    assert lines["robot"].startswith("FAILED")
    assert board.commands.count == 0


def test_a_robot_behind_a_router_fails_before_anything_is_sent():
    assert check_address("192.168.123.10", "10.0.0.5").level is Level.FAILED
    assert check_address("192.168.123.10", "192.168.123.162").level is Level.OK


def test_a_quaternion_in_the_wrong_order_is_found(healthy):
    state = healthy.newest
    rolled = replace(state, orientation=np.array([0.38, 0.0, 0.0, 0.92]))
    for wrong in (
        rolled,
        replace(state, orientation=np.roll(state.orientation, 1)),
        replace(state, orientation=np.zeros(4)),
    ):
        assert check_orientation(replace(healthy, states=[wrong])).level is Level.FAILED
    assert check_orientation(healthy).level is Level.OK


def test_a_remote_in_use_is_a_warning(healthy):
    def checked(remote: bytes):
        return check_remote(replace(healthy, states=[replace(healthy.newest, remote=remote)]))

    at_rest = b"\x01" + encode_remote(RemoteState())[1:]
    assert checked(at_rest).level is Level.OK
    assert "A" in checked(encode_remote(RemoteState(buttons=frozenset({"A"})))).message
    assert checked(bytes(40)).level is Level.WARNING


def test_a_joint_moved_by_hand_is_named(board, capsys):
    transport = WireTransport(GEN33, board.address, 0)
    transport.open()
    timer = threading.Timer(0.3, lambda: setattr(board, "faults", BoardFaults(outside_limits=True)))
    timer.start()
    named = watch_joints(transport, 0.8)
    transport.close()
    assert set(named) == {f"{leg}_calf_joint" for leg in ("FR", "FL", "RR", "RL")}
    assert "FL_calf_joint" in capsys.readouterr().out


def test_a_slow_computer_is_never_a_reason_to_fail():
    assert check_wake_up(np.full(100, 0.5)).level is Level.WARNING
