import time
from unittest import mock

import numpy as np
import pytest
from ros_harness import wait_until

from fcnet_controller.control_loop import DAMPING_MESSAGES, ControlLoop, RealTimePace, SimulatedPace
from fcnet_core.names import Mode
from fcnet_ros.health import LoopStatistics


class Simulation:
    """Its states have these stamps [s], one after the other."""

    def __init__(self, bench, stamps):
        self.bench, self.stamps, self.ended = bench, iter(stamps), False

    def poll(self):
        if (stamp := next(self.stamps, None)) is not None:
            self.bench.store(stamp, stamp)
        self.ended = stamp is None
        return not self.ended


def test_commands_of_a_simulated_time_that_went_back_do_not_count_again(bench):
    simulation = Simulation(bench, [50, 1, 50])
    pace = SimulatedPace(bench.core, simulation, LoopStatistics(), bench.period, None)
    cycles = pace.cycles(lambda: simulation.ended)
    now = next(cycles)
    bench.source.set_velocity(0.5, 0.0, 0.0, now)
    assert bench.core.commands.wanted(now)[0] == 0.5
    for now in cycles:
        np.testing.assert_allclose(bench.core.commands.wanted(now), 0.0)


def test_a_loop_that_stood_still_for_longer_than_a_state_may_be_old_is_a_fault(bench):
    bench.walk()
    bench.core.stop_after_stall(0.19)
    assert bench.core.mode is Mode.WALKING
    bench.core.stop_after_stall(0.21)
    assert "stood still for 0.21 s" in bench.core.fault


class Receiver:
    """Stores good states, and pauses in the middle of a cycle where it is asked to."""

    def __init__(self, bench):
        self.bench, self.pause, self.paused, self.received = bench, 0.0, False, 0.0

    def receive(self, _deadline, _until):
        pause, self.pause = self.pause, 0.0
        self.paused = self.paused or pause > 0
        time.sleep(pause)
        self.bench.now = time.monotonic()
        self.bench.store()


def real_time(bench, receiver, publisher):
    return RealTimePace(bench.core, receiver, LoopStatistics("wake", "response"), bench.period, publisher)


class Publisher(mock.MagicMock):
    """Keeps in `sent` the targets that are published after the receiver's pause."""

    def publish(self, target, _stamp):
        if self.receiver.paused:
            self.sent.append(target)


def test_a_loop_that_was_stopped_in_the_middle_of_a_cycle_sends_damping_when_it_goes_on(bench):
    bench.now = time.monotonic()
    bench.walk()
    receiver = Receiver(bench)
    publisher = Publisher(receiver=receiver, sent=[])
    loop = ControlLoop(real_time(bench, receiver, publisher), lambda: None)
    loop.start()
    receiver.pause = 0.5
    wait_until(lambda: publisher.sent, "targets")
    loop.stop()
    assert publisher.sent == [None] * len(publisher.sent)
    assert "stood still for 0." in bench.core.fault


class DeadPublisher(Publisher):
    """Cannot publish any longer."""

    def publish(self, target, stamp):
        raise RuntimeError("publisher is invalid")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("kind", [Publisher, DeadPublisher])
def test_a_loop_that_an_error_has_ended_is_not_running_when_that_is_told(bench, kind):
    def fail(_now):
        raise RuntimeError("an error")

    bench.now = time.monotonic()
    bench.core.cycle = fail
    receiver = Receiver(bench)
    receiver.paused, publisher, told = True, kind(receiver=receiver, sent=[]), []
    loop = ControlLoop(real_time(bench, receiver, publisher), lambda: told.append(loop.is_running))
    loop.start()
    wait_until(lambda: told, "the end")
    assert told == [False]
    assert kind is DeadPublisher or publisher.sent == [None] * DAMPING_MESSAGES
