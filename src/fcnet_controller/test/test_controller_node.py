"""The controller as a process, driven through topics and services."""

import math
import os
import signal
import time
from pathlib import Path

import pytest
from std_srvs.srv import SetBool

from fcnet_core.names import CONTROLLER, HealthKey, Mode


@pytest.fixture(scope="module")
def controller(start, bench, model_path):
    times = {"stand_up_time": 1.5, "lie_down_time": 0.5}  # slow enough for a robot whose process gets little time
    real_time = {"realtime_priority": 30, "lock_memory": True}
    program = start(policy=model_path, auto_start=True, **times, **real_time)
    bench.until_mode(Mode.WALKING)
    return program


@pytest.fixture
def lying(controller, bench):
    """The bench with a robot that lies passively, whatever was before."""
    bench.emergency_stop(CONTROLLER)
    bench.until_mode(Mode.FAULT)
    bench.restore()
    assert bench.call("controller/reset").success
    bench.until_mode(Mode.PASSIVE)
    return bench


@pytest.fixture
def walking(lying):
    """The bench with a robot that walks."""
    stand_up(lying)
    walk(lying)
    return lying


def stand_up(bench):
    bench.until(lambda: bench.call("controller/stand_up").success, "standing up, once the states are good again")
    bench.until_mode(Mode.STANDING)


def walk(bench):
    assert bench.call("controller/walk").success
    bench.until_mode(Mode.WALKING)


def real_time_priorities(process):
    """Of the threads of a process that have SCHED_FIFO."""
    threads = [int(folder.name) for folder in Path(f"/proc/{process}/task").iterdir()]
    fifo = [thread for thread in threads if os.sched_getscheduler(thread) == os.SCHED_FIFO]
    return [os.sched_getparam(thread).sched_priority for thread in fifo]


def test_the_control_thread_alone_has_a_real_time_priority_where_the_system_permits_it(controller):
    assert real_time_priorities(controller.process.pid) == [30] or "no SCHED_FIFO priority 30" in controller.output


def test_a_robot_goes_through_all_modes_in_order_and_is_damped_before_and_after(lying):
    lying.until(lambda: lying.damped, "damping")
    assert "~/stand_up" in lying.call("controller/walk").message
    lying.modes.clear()
    stand_up(lying)
    walk(lying)
    assert lying.call("controller/lie_down").success
    lying.until_mode(Mode.PASSIVE)
    assert lying.modes == [Mode.STANDING_UP, Mode.STANDING, Mode.WALKING, Mode.LYING_DOWN, Mode.PASSIVE]
    lying.until(lambda: lying.damped, "damping")


def test_a_controller_that_stood_still_is_in_fault_and_damps(controller, walking):
    controller.process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    walking.trajectories.clear()
    controller.process.send_signal(signal.SIGCONT)
    walking.until_mode(Mode.FAULT)
    walking.until(lambda: "stood still for" in walking.health.get(HealthKey.FAULT, ""), "the reason")
    assert not walking.positions().size
    assert walking.damped


def test_an_emergency_stop_is_latched_until_reset(walking):
    assert walking.emergency_stop(CONTROLLER).success
    walking.until_mode(Mode.FAULT)
    walking.until(lambda: walking.damped, "damping")
    assert not walking.call("controller/emergency_stop", SetBool, data=False).success
    for request in ("stand_up", "recover", "walk", "lie_down"):
        assert not walking.call(f"controller/{request}").success
    walking.drive(0.3, vx=0.5)
    assert walking.mode == Mode.FAULT
    assert walking.damped
    assert walking.call("controller/reset").success
    walking.until_mode(Mode.PASSIVE)
    walking.drive(0.3, vx=0.5)
    assert walking.damped
    stand_up(walking)


def test_diagnostics_give_rate_misses_and_latencies(walking):
    walking.drive(0.3, vx=0.2)
    walking.health = {}
    walking.until(lambda: "rate_hz" in walking.health, "diagnostics")
    for figure in ("rate_hz", "loop_time_s", "deadline_misses", "state_age_ms", "step_p50_ms", "response_p99_ms"):
        assert math.isfinite(float(walking.health[figure])), figure
    assert walking.health["mode"] == "walking"
    assert walking.health["commands_limited"] == ""
