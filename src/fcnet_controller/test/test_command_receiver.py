"""Joystick, keyboard and planner publish to one controller process, which follows the most important one alone."""

import threading
import time

import numpy as np
import pytest
from geometry_msgs.msg import Twist, TwistStamped

from fcnet_controller.controller_node import CommandReceiver
from fcnet_core.control.command import CommandArbiter
from fcnet_core.remote import Source
from fcnet_teleop.commands import CommandPublisher
from fcnet_teleop.controls import Command

PERIOD = 0.05  # [s]
TOPICS = {"joystick": "joystick/cmd_vel", "keyboard": "keyboard/cmd_vel", "cmd_vel": "cmd_vel"}


class Sources:
    """Each source publishes a forward speed every PERIOD; None is silence."""

    def __init__(self, bench):
        self.speeds = dict.fromkeys(TOPICS)
        self._publishers = {name: bench.node.create_publisher(Twist, topic, 1) for name, topic in TOPICS.items()}
        self._end = threading.Event()
        threading.Thread(target=self._publish, daemon=True).start()

    def _publish(self):
        while not self._end.wait(PERIOD):
            for name, speed in self.speeds.items():
                if speed is not None:
                    message = Twist()
                    message.linear.x = speed
                    self._publishers[name].publish(message)

    def close(self):
        self._end.set()


@pytest.fixture
def sources(bench):
    sources = Sources(bench)
    yield sources
    sources.close()


@pytest.fixture
def controller(start, bench, model_path):
    # On a busy machine the sources pause for longer than the default timeout of commands.
    program = start(policy=model_path, runtime="numpy", stand_up_time=0.5, cmd_vel_timeout=2.0, auto_start=True)
    bench.until_mode("walking")
    return program


def moves(bench):
    newest = bench.positions()[-25:]
    return len(newest) == 25 and np.ptp(newest, axis=0).max() > 1e-4


def rests(bench):
    newest = bench.positions()[-25:]
    return len(newest) == 25 and np.ptp(newest, axis=0).max() < 1e-6


def changes(controller):
    """What the controller has logged of the source in control, oldest first."""
    lines = controller.output.splitlines()
    return [line.rpartition("]: ")[2] for line in lines if "takes over" in line or "in control" in line]


def test_an_operator_overrides_a_planner_until_silent(bench, controller, sources):
    bench.until(lambda: rests(bench), "standing at the beginning")
    for name, speed, change, result in (
        ("cmd_vel", 0.5, "cmd_vel is in control", moves),
        ("keyboard", 0.0, "keyboard takes over from cmd_vel", rests),
        ("joystick", 0.3, "joystick takes over from keyboard", moves),
        ("joystick", None, "keyboard takes over from joystick", rests),
        ("keyboard", None, "cmd_vel takes over from keyboard", moves),
    ):
        sources.speeds[name] = speed
        bench.until(lambda change=change: changes(controller)[-1:] == [change], change)
        bench.trajectories.clear()
        bench.until(lambda result=result: result(bench), f"{result.__name__} after {change}")
    sources.speeds["cmd_vel"] = None
    bench.until(lambda: rests(bench), "standing without any source")
    assert controller.end() == 0, controller.output
    assert len(changes(controller)) == 5


def source_under(topics):
    """A source that a user has added to config/remote.yaml."""
    return Source("mine", f"{topics}/cmd_vel", f"{topics}/cmd_pose")


@pytest.mark.parametrize("stamped", [False, True])
def test_velocity_and_pose_arrive_as_published(bench, stamped):
    arbiter, source = CommandArbiter(timeout=30.0), source_under("stamped" if stamped else "plain")
    CommandReceiver(bench.node, arbiter, stamped, [source])
    publisher = CommandPublisher(bench.node, source, stamped)

    def arrives():
        velocity, pose = {"vx": 0.3, "vy": -0.1, "yaw_rate": 0.2}, {"height": -0.05, "roll": 0.1, "pitch": -0.15}
        publisher.publish(Command(velocity, pose))
        time.sleep(0.05)
        wanted = arbiter.wanted(time.monotonic())[:6]
        return np.allclose(wanted, [0.3, -0.1, 0.2, -0.05, 0.1, -0.15], atol=1e-6)

    bench.until(arrives, "velocity and pose")
    assert arbiter.source(time.monotonic()) == "mine"


def test_a_stamped_velocity_is_as_old_as_its_stamp(bench):
    arbiter = CommandArbiter(timeout=5.0)
    CommandReceiver(bench.node, arbiter, stamped=True, sources=[source_under("aged")])
    publisher = bench.node.create_publisher(TwistStamped, "aged/cmd_vel", 1)

    def counts(age):
        message = TwistStamped()
        message.twist.linear.x = 0.4
        message.header.stamp.sec = bench.node.get_clock().now().to_msg().sec - age
        publisher.publish(message)
        time.sleep(0.05)
        return arbiter.source(time.monotonic()) == "mine"

    bench.until(lambda: counts(age=1), "a velocity of now")
    arbiter.clear()
    assert not any(counts(age=60) for _ in range(10))
