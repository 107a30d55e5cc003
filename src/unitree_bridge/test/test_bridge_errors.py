"""Errors in the program and requests that the system refuses: the robot is damped, and the log has the reason."""

import ctypes
import resource

import pytest

from unitree_lowlevel.fake_board.faults import BoardFaults

BROKEN_CYCLE = """
from unitree_lowlevel.driver import MotorDriver
cycle = MotorDriver.cycle
def broken(self, now, reception, counters):
    if reception is not None and reception.state.temperature[0] == 42.0:
        raise ZeroDivisionError("a loop that is broken")
    return cycle(self, now, reception, counters)
MotorDriver.cycle = broken
"""
BROKEN_PART = """
from {module} import {part}
def broken(self, *arguments, **named):
    raise ZeroDivisionError("a part that is broken")
{part}.{method} = broken
"""
HARDWARE, STATES = "unitree_bridge.hardware", "fcnet_ros.messages"
PR_CAPBSET_DROP, CAP_IPC_LOCK, CAP_SYS_NICE = 24, 14, 23


def without_privileges():
    """A user whom the system grants no real-time priority and no locked memory, also where tests are run by root."""
    for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(limit, (0, 0))
    for capability in (CAP_IPC_LOCK, CAP_SYS_NICE):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.fixture
def broken_io(tmp_path):
    """A folder that breaks the I/O process: Python runs a module of this name at every start."""
    (tmp_path / "sitecustomize.py").write_text(BROKEN_CYCLE)
    return tmp_path


def test_an_error_in_the_loop_damps_the_robot_and_ends_the_process(start, client, board, robot, is_damping, broken_io):
    program = start(auto_start=True, modules=broken_io)
    client.until_driver_mode("damping")
    client.begin(board, robot.lie_pose)
    client.send_targets(robot.lie_pose, 0.3)
    assert board.commands.last_stiff() is not None
    board.faults = BoardFaults(temperature=42.0)
    assert program.wait() == 1
    board.faults = BoardFaults()
    damping = [arrival for arrival, _ in board.commands.recent if arrival > board.commands.last_stiff()]
    assert is_damping(board.commands.last)
    assert damping[-1] - board.commands.last_stiff() > 0.05  # of 0.12 s: this machine may notice arrivals late
    assert program.output.count("ZeroDivisionError: a loop that is broken") == 1


def test_an_error_while_leaving_comes_after_the_damping_and_is_logged(start, client, board, robot, is_damping):
    broken = BROKEN_PART.format(module=HARDWARE, part="RemotePublisher", method="destroy")
    program = start(auto_start=True, broken=broken)
    client.until_driver_mode("damping")
    client.begin(board, robot.lie_pose)
    assert program.end() == 1
    assert is_damping(board.commands.last)
    assert "ZeroDivisionError: a part that is broken" in program.output


@pytest.mark.parametrize(
    ("transition", "module", "part", "method"),
    [
        ("configure", STATES, "StatePublisher", "__init__"),
        ("activate", HARDWARE, "UnitreeHardware", "activate"),
        ("cleanup", HARDWARE, "RemotePublisher", "destroy"),
    ],
)
def test_an_error_in_a_transition_is_logged_and_the_transition_fails(
    start, client, board, robot, transition, module, part, method
):
    program = start(broken=BROKEN_PART.format(module=module, part=part, method=method))
    if transition != "configure":
        assert client.change_state("aliengo_bridge", "configure")
    assert not client.change_state("aliengo_bridge", transition)
    client.until(lambda: "a part that is broken" in program.output, "the error in the log")
    assert "FATAL" in program.output
    assert "Traceback" in program.output
    board.commands.reset()
    client.send_targets(None, 0.1)
    client.send_targets(robot.lie_pose, 0.2)
    assert board.commands.last_stiff() is None


def test_a_bridge_that_could_not_be_configured_can_be_once_the_cause_has_gone(start, client, board):
    once = BROKEN_PART.format(module=STATES, part="StatePublisher", method="__init__").replace(
        "    raise", "    StatePublisher.__init__ = working\n    raise"
    )
    program = start(broken=once.replace("def broken", "working = StatePublisher.__init__\ndef broken"))
    assert not client.change_state("aliengo_bridge", "configure")
    assert client.change_state("aliengo_bridge", "configure"), program.output
    client.until_driver_mode("damping")


def test_a_bridge_goes_on_without_what_the_system_refuses(start, client, board):
    program = start(auto_start=True, realtime_priority=50, lock_memory=True, cpu=1000, prepare=without_privileges)
    client.until_driver_mode("damping")
    client.until(lambda: program.output.count("continuing without") == 3, "three sentences")
    for words in ("no SCHED_FIFO priority 50", "memory is not locked", "not pinned to processor 1000"):
        assert words in program.output
    assert program.end() == 0
