"""Joystick, keyboard and planner publish to one controller, which follows only the most important one."""

import re
import time

import numpy as np
import pytest
from geometry_msgs.msg import Twist, TwistStamped, Vector3

from fcnet_controller.controller_node import receive_commands
from fcnet_controller.parameters import ControllerParameters
from fcnet_core.control.command import CommandArbiter
from fcnet_core.control.timing import NEVER
from fcnet_core.remote import Source, load_remote_map
from fcnet_ros.topics import CMD_VEL
from fcnet_teleop.commands import CommandPublisher
from fcnet_teleop.controls import Command

PERIOD = 0.05  # [s]


@pytest.fixture
def receive(bench):
    """Receive the commands of sources; return a function for the source in control and its setpoints, by then."""

    def receive(*sources, timeout=5.0, stamped=False):
        given = ControllerParameters(use_stamped_cmd_vel=stamped, cmd_vel_timeout=timeout)
        arbiter = CommandArbiter(timeout)
        messages = receive_commands(bench.node, arbiter, sources, given, time.monotonic)

        def in_force():
            time.sleep(PERIOD)
            for message in messages:  # as the control loop does in each cycle
                message.store(NEVER)
            now = time.monotonic()
            return arbiter.source(now), arbiter.wanted(now)

        return in_force

    return receive


def test_an_operator_overrides_a_planner_until_silent(bench, receive):
    sources = load_remote_map().sources  # the most important one first
    in_force = receive(*sources, timeout=1.0)
    publishers = [CMD_VEL.named(source.velocity).publisher(bench.node) for source in sources]
    for silent, source in enumerate((*sources, None)):

        def is_in_control(silent=silent, expected=(source.name, 0.1 * silent) if source else ("", 0.0)):
            for number, publisher in list(enumerate(publishers))[silent:]:
                publisher.publish(Twist(linear=Vector3(x=0.1 * number)))
            name, setpoints = in_force()
            return (name, setpoints[0]) == expected

        bench.until(is_in_control, f"{source} in control")


def source_under(topics):
    """A source that a user has added to config/remote.yaml."""
    return Source("mine", f"{topics}/cmd_vel", f"{topics}/cmd_pose")


@pytest.mark.parametrize("stamped", [False, True])
def test_velocity_and_pose_arrive_as_published(bench, receive, stamped):
    source = source_under("stamped" if stamped else "plain")
    in_force, publisher = receive(source, timeout=30.0, stamped=stamped), CommandPublisher(bench.node, source, stamped)

    def arrives():
        velocity, pose = {"vx": 0.3, "vy": -0.1, "yaw_rate": 0.2}, {"height": -0.05, "roll": 0.1, "pitch": -0.15}
        publisher.publish(Command(velocity, pose))
        name, setpoints = in_force()
        return name == "mine" and np.allclose(setpoints[:6], [0.3, -0.1, 0.2, -0.05, 0.1, -0.15], atol=1e-6)

    bench.until(arrives, "velocity and pose")


@pytest.mark.parametrize(("age", "words"), [(60, "60.. s old"), (-60, "(59|60).. s ahead"), (1 << 31, ".*s old")])
def test_a_stamped_velocity_is_as_old_as_its_stamp_and_one_that_is_late_or_ahead_is_named(
    bench, receive, capfd, age, words
):
    in_force = receive(source_under(f"aged_{age & 0xFFFF}"), stamped=True)
    publisher = bench.node.create_publisher(TwistStamped, f"aged_{age & 0xFFFF}/cmd_vel", 1)

    def counts(age):
        message = TwistStamped()
        message.twist.linear.x = 0.4
        message.header.stamp.sec = bench.node.get_clock().now().to_msg().sec - age
        publisher.publish(message)
        return in_force()[0] == "mine"

    bench.until(lambda: counts(age=1), "a velocity of now")
    bench.until(lambda: not counts(age), "a velocity that does not count")
    sentence = re.compile(f"is {words} by its stamp .*synchronise the computers' clocks")
    bench.until(lambda: not counts(age) and sentence.search(capfd.readouterr().err), "a warning, at most every 5 s")
