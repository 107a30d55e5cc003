"""Errors in the program and requests that the system refuses: the robot is damped, and the log has the reason."""

import ctypes
import resource
import signal

import pytest

from unitree_lowlevel.driver import DriverMode
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
HARDWARE, STATES = "unitree_bridge.hardware", "fcnet_ros.state_messages"
PR_CAPBSET_DROP, CAP_IPC_LOCK, CAP_SYS_NICE = 24, 14, 23


def fails(module, part, method, call=1):
    """Return Python that breaks one call of a method; call: which."""
    return f"""
import {module}
def break_call(part, method="{method}"):
    working, left = getattr(part, method), [{call}]
    def broken(self, *arguments, **named):
        left[0] -= 1
        if left[0] == 0:
            raise ZeroDivisionError("{part} is broken")
        return working(self, *arguments, **named)
    setattr(part, method, broken)
break_call({module}.{part})
"""


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


@pytest.mark.parametrize(
    ("broken", "end", "error"),
    [
        ("", lambda program, board: setattr(board, "faults", BoardFaults(temperature=42.0)), "a loop that is broken"),
        (
            fails(HARDWARE, "RobotOwnership", "release"),
            lambda program, board: program.send(signal.SIGINT),
            "RobotOwnership is broken",
        ),
    ],
    ids=["in the loop", "while leaving"],
)
def test_an_error_in_the_loop_or_while_leaving_is_logged_and_leaves_damping_before_the_process_ends(
    start, client, board, robot, is_damping, broken_io, broken, end, error
):
    program = start(auto_start=True, modules=broken_io, broken=broken)
    client.until_driver_mode(DriverMode.DAMPING)
    client.begin(board, robot.lie_pose)
    end(program, board)
    assert program.wait() == 1
    board.faults = BoardFaults()
    assert is_damping(board.commands.last)
    assert board.commands.recent[-1][0] - board.commands.last_stiff() > 0.05  # of 0.12 s: arrivals are noticed late
    assert program.output.count(f"ZeroDivisionError: {error}") == 1


def test_a_transition_that_fails_with_an_error_is_logged_moves_nothing_and_can_be_repeated(start, client, board, robot):
    parts = {
        "configure": (STATES, "StatePublisher", "__init__"),
        "activate": (HARDWARE, "UnitreeHardware", "activate"),
        "cleanup": (HARDWARE, "RobotOwnership", "release", 2),  # the first call is after the failed configuration
    }
    program = start(broken="".join(fails(*part) for part in parts.values()))
    for transition, (_module, part, *_) in parts.items():
        assert not client.change_state("aliengo_bridge", transition)
        program.until_printed(rf"FATAL(.|\n)*Traceback(.|\n)*{part} is broken")
        assert not client.is_followed(board, robot.lie_pose)
        if transition == "configure":
            assert client.change_state("aliengo_bridge", transition), program.output
            client.until_driver_mode(DriverMode.DAMPING)


def test_a_bridge_goes_on_without_what_the_system_refuses(start, client, board):
    program = start(auto_start=True, realtime_priority=50, lock_memory=True, cpu=1000, prepare=without_privileges)
    client.until_driver_mode(DriverMode.DAMPING)
    client.until(lambda: program.output.count("continuing without") == 3, "three sentences")
    for words in ("no SCHED_FIFO priority 50", "memory is not locked", "not pinned to processor 1000"):
        assert words in program.output
    assert program.end() == 0
