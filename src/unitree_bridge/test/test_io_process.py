"""A bridge is two processes, of which each damps the motors where the other one stops, is stopped or dies; and so does
the I/O process when targets end.
"""

import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fcnet_core.errors import RobotInUseError
from unitree_lowlevel.driver import DriverMode
from unitree_lowlevel.io_process import lock_robot

WITHIN = 0.1  # [s] from the end of a process to damping on the wire
LATENESS = 0.1  # [s] granted to a loaded machine on top
GAP = 0.5  # [s] between damping commands while a loaded machine starts another process
SUCCESSOR = """
import sys, time
from unitree_lowlevel.io_link import IoClient, IoSettings
host, port = sys.argv[1], int(sys.argv[2])
client = IoClient(IoSettings(robot="aliengo", transport="wire", generation="gen33", host=host, port=port, local_port=0,
    period=0.002, interpolation_time=0.01, stop_chords=(), remote_lost="hold", allow_recovery=False,
    realtime_priority=0, lock_memory=False, cpu=-1))
client.wait_for_start()
print("started", flush=True)
sys.stdin.readline()
client.open()
print("open", flush=True)
time.sleep(60.0)
"""


def processes_of(bridge):
    """Process ids by part: the one with ROS, and its I/O process."""
    io = [process for process, line in bridge.survivors().items() if "unitree_lowlevel.io_process" in line]
    assert len(io) == 1, bridge.survivors()
    return {"ros": bridge.process.pid, "io": io[0]}


@pytest.fixture
def followed(start, client, board, robot):
    """A bridge of this test alone that follows; its processes are killed by what comes."""
    program = start(auto_start=True, robot_file="aliengo")  # with its own time limits
    client.until_driver_mode(DriverMode.DAMPING)
    client.follow(board, robot.lie_pose)
    return program


def reset_with_few_files(client, process):
    """Request a reset of a bridge that cannot open a further file; return the response."""
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        return client.call("aliengo_bridge/reset")
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, before)


def arrivals_of(board):
    return np.array([arrival for arrival, _ in board.commands.recent])


def stiff_after(board, moment):
    """Seconds for which commands were stiff after a moment."""
    last = board.commands.last_stiff()
    return 0.0 if last is None else max(0.0, last - moment)


def test_a_process_that_was_stopped_moves_nothing_afterwards(followed, client, board, robot, is_damping):
    for process in processes_of(followed).values():
        client.follow(board, robot.lie_pose)
        stopped = time.monotonic()
        os.kill(process, signal.SIGSTOP)
        try:
            client.send_targets(robot.lie_pose, 1.0)
        finally:
            os.kill(process, signal.SIGCONT)
        continued = time.monotonic()
        client.send_targets(robot.lie_pose, 0.5)
        assert stiff_after(board, stopped) < WITHIN + LATENESS
        assert is_damping(board.commands.last)
        client.begin(board, robot.lie_pose)  # a damp, and it follows again, gently
        stiffness = [command.stiffness.max() for arrival, command in board.commands.recent if arrival > continued]
        assert 0.0 < next(filter(None, stiffness)) < 0.1 * robot.gains.kp


@pytest.mark.parametrize("part", ["ros", "io", "targets"])
def test_when_one_process_is_killed_or_targets_end_what_is_left_damps(followed, client, board, robot, is_damping, part):
    if part == "ros":
        with pytest.raises(RobotInUseError):
            lock_robot(board.address)  # as a second bridge does
        for number in (signal.SIGHUP, signal.SIGQUIT):  # of a closed terminal and Ctrl-\\, to both processes
            os.kill(processes_of(followed)["io"], number)
    if part == "targets":
        client.send_targets(robot.lie_pose, 0.1)
        ended = time.monotonic()
        time.sleep(0.8)
    else:
        process, ended = processes_of(followed)[part], time.monotonic()
        os.kill(process, signal.SIGKILL)
        client.send_targets(robot.lie_pose, 0.8)
    assert stiff_after(board, ended) < WITHIN + LATENESS
    assert is_damping(board.commands.last)
    assert arrivals_of(board)[-1] - ended > 0.7, "damping went on"


def test_a_reset_starts_another_io_process_in_place_of_one_that_was_killed_and_the_robot_stays_damped(
    followed, client, board, robot, is_damping
):
    for stiffness, moment in ((40.0, "before"), (30.0, "while it is gone")):
        if moment == "before":
            client.offer_gains(stiffness, 1.5)
            client.send_targets(None, 0.1)
        killed = processes_of(followed)["io"]
        os.kill(killed, signal.SIGKILL)
        client.until(lambda: client.fault and "io_process" in client.fault, "a fault that names the process")
        if moment != "before":
            client.offer_gains(stiffness, 1.5)
            time.sleep(0.3)
            refused = reset_with_few_files(client, followed.process.pid)
            assert not refused.success
            assert "open files" in refused.message
        assert client.emergency_stop("aliengo_bridge").success, "it is damped until a reset anyway"
        board.commands.reset()
        client.until(lambda: client.call("aliengo_bridge/reset").success, "a reset")
        client.until(lambda: client.fault == "", "no fault")
        assert all(is_damping(command) for _, command in board.commands.recent)
        assert np.diff(arrivals_of(board)).max() < GAP, "one of the processes damps at any time"
        assert processes_of(followed)["io"] != killed
        board.commands.reset()
        highest = 0.0
        for _ in range(30):  # the stiffness rises as long as targets are in time, which a busy computer delays
            if not highest:
                client.begin(board, robot.lie_pose)
            client.send_targets(robot.lie_pose, 1.0)
            highest = max(command.stiffness.max() for _, command in board.commands.recent)
            if highest >= stiffness:
                break
        assert highest == stiffness, "the gains that were offered"
    assert followed.end() == 0, followed.output


def test_a_new_bridge_takes_over_while_an_orphaned_io_process_still_damps(followed, client, board, start):
    os.kill(processes_of(followed)["ros"], signal.SIGKILL)
    killed = time.monotonic()
    successor = start(auto_start=True)
    client.until(lambda: successor.lines or arrivals_of(board)[-1] - killed > 3.0, "the successor's commands")
    client.until_driver_mode(DriverMode.DAMPING)
    assert not any("unitree_lowlevel.io_process" in line for line in followed.survivors().values())
    assert stiff_after(board, killed) < WITHIN + LATENESS
    arrivals = arrivals_of(board)
    gaps = np.diff(arrivals[arrivals > killed])
    assert gaps.max() < GAP, "somebody damps all the time, also while it looks for others"
    assert successor.end() == 0, successor.output


def test_a_successor_that_is_killed_before_it_begins_leaves_damping_behind(followed, client, board, is_damping):
    command = [sys.executable, "-c", SUCCESSOR, *map(str, board.address)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as successor:
        try:
            assert successor.stdout.readline() == "started\n"
            os.kill(processes_of(followed)["ros"], signal.SIGKILL)
            successor.stdin.write("\n")
            successor.stdin.flush()
            assert successor.stdout.readline() == "open\n"
        finally:
            successor.kill()
    killed = time.monotonic()
    board.commands.reset()
    time.sleep(1.0)
    arrivals = arrivals_of(board)
    assert arrivals.size and arrivals[-1] - killed > 0.9, "damping went on"
    assert board.commands.last_stiff() is None
    assert is_damping(board.commands.last)


def test_an_activation_that_failed_does_not_come_true_later(start, client, board, robot):
    program = start(robot_file="aliengo")
    assert client.change_state("aliengo_bridge", "configure")
    client.until_driver_mode(DriverMode.DAMPING)
    io = processes_of(program)["io"]
    os.kill(io, signal.SIGSTOP)
    try:
        assert not client.change_state("aliengo_bridge", "activate"), "nobody has taken the request"
    finally:
        os.kill(io, signal.SIGCONT)
    board.commands.reset()
    assert not client.is_followed(board, robot.lie_pose), "the request was taken late, and withdrawn"
    os.kill(io, signal.SIGKILL)
    client.until(lambda: client.fault and "io_process" in client.fault, "a fault that names the process")
    client.until(lambda: client.call("aliengo_bridge/reset").success, "a reset")
    client.until_driver_mode(DriverMode.DAMPING)
    assert not client.is_followed(board, robot.lie_pose), "the bridge is not active"
    assert client.change_state("aliengo_bridge", "activate")
    client.follow(board, robot.lie_pose)
