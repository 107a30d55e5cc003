"""Joystick, keyboard and planner publish to one controller, which follows only the most important one."""

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


def poll(messages):
    """Take new messages, as the control loop does in each cycle."""
    for message in messages:
        message.store(NEVER)


def test_an_operator_overrides_a_planner_until_silent(bench):
    arbiter, sources = CommandArbiter(timeout=1.0), load_remote_map().sources
    messages = receive_commands(bench.node, arbiter, sources, ControllerParameters(), time.monotonic)
    publishers = {source.name: CMD_VEL.named(source.velocity).publisher(bench.node) for source in sources}
    speeds = {}

    def command_in_force():
        """Publish the speed of each source that is not silent; return who is in control, and the speed."""
        for name, speed in speeds.items():
            if speed is not None:
                publishers[name].publish(Twist(linear=Vector3(x=speed)))
        time.sleep(PERIOD)
        poll(messages)
        now = time.monotonic()
        return arbiter.source(now), arbiter.wanted(now)[0]

    for name, speed, expected in (
        ("cmd_vel", 0.5, ("cmd_vel", 0.5)),
        ("keyboard", 0.0, ("keyboard", 0.0)),
        ("joystick", 0.3, ("joystick", 0.3)),
        ("joystick", None, ("keyboard", 0.0)),
        ("keyboard", None, ("cmd_vel", 0.5)),
        ("cmd_vel", None, ("", 0.0)),
    ):
        speeds[name] = speed
        bench.until(lambda expected=expected: command_in_force() == expected, f"source and speed {expected}")


def source_under(topics):
    """A source that a user has added to config/remote.yaml."""
    return Source("mine", f"{topics}/cmd_vel", f"{topics}/cmd_pose")


@pytest.mark.parametrize("stamped", [False, True])
def test_velocity_and_pose_arrive_as_published(bench, stamped):
    arbiter, source = CommandArbiter(timeout=30.0), source_under("stamped" if stamped else "plain")
    given = ControllerParameters(use_stamped_cmd_vel=stamped)
    messages = receive_commands(bench.node, arbiter, [source], given, time.monotonic)
    publisher = CommandPublisher(bench.node, source, stamped)

    def arrives():
        velocity, pose = {"vx": 0.3, "vy": -0.1, "yaw_rate": 0.2}, {"height": -0.05, "roll": 0.1, "pitch": -0.15}
        publisher.publish(Command(velocity, pose))
        time.sleep(0.05)
        poll(messages)
        wanted = arbiter.wanted(time.monotonic())[:6]
        return np.allclose(wanted, [0.3, -0.1, 0.2, -0.05, 0.1, -0.15], atol=1e-6)

    bench.until(arrives, "velocity and pose")
    assert arbiter.source(time.monotonic()) == "mine"


def test_a_stamped_velocity_is_as_old_as_its_stamp(bench):
    arbiter = CommandArbiter(timeout=5.0)
    given = ControllerParameters(use_stamped_cmd_vel=True)
    messages = receive_commands(bench.node, arbiter, [source_under("aged")], given, time.monotonic)
    publisher = bench.node.create_publisher(TwistStamped, "aged/cmd_vel", 1)

    def counts(age):
        message = TwistStamped()
        message.twist.linear.x = 0.4
        message.header.stamp.sec = bench.node.get_clock().now().to_msg().sec - age
        publisher.publish(message)
        time.sleep(0.05)
        poll(messages)
        return arbiter.source(time.monotonic()) == "mine"

    bench.until(lambda: counts(age=1), "a velocity of now")
    arbiter.clear()
    assert not any(counts(age=60) for _ in range(10))
