"""Which targets are followed: validated by joints, stamp and sender; taken by DDS or from a local socket; and gains."""

import math
import os
import socket
import time
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from ros_harness import JOINTS, wait_until
from std_msgs.msg import String

from fcnet_core.errors import FcnetError, RefusedCommandError
from fcnet_core.names import SECOND
from fcnet_ros.local_socket import LocalSender, LocalTargets, is_trusted, socket_name
from fcnet_ros.one_publisher import MAX_PUBLISHERS, IdentifiedMessages, gid_of, is_own
from fcnet_ros.targets import (
    MAX_SOURCES,
    TargetPublisher,
    TargetValidator,
    gains_text,
    joint_targets,
    read_gains,
    take_command,
)
from fcnet_ros.topics import JOINT_TRAJECTORY

THREE, POSITIONS = ("left_knee", "right_knee", "tail"), [0.1, 0.2, 0.3]
POSE = np.linspace(-0.5, 0.5, 12)
OTHER_USER = 65534


def message(stamp, target=POSE):
    publisher = TargetPublisher(mock.Mock(), JOINTS)
    publisher.publish(target, stamp)
    return publisher.publishers[0].publish.call_args.args[0]


@pytest.fixture
def validator():
    return TargetValidator(JOINTS, time.time_ns)


@pytest.fixture
def node(make_node):
    return make_node("commander", namespace="dog")


def test_a_message_becomes_a_command_with_its_arrival_and_its_source(validator):
    now = time.time_ns()
    command = validator.command(message(now), now - SECOND // 10, "someone 01")
    np.testing.assert_array_equal(command.targets, POSE)
    assert command.source == "someone 01"
    assert 0.1 <= time.monotonic() - command.received < 0.4


@pytest.mark.parametrize("offset", [-3600.0, -0.6, 0.6, 3600.0, None])
def test_a_stamp_away_from_the_clock_or_none_is_refused(validator, offset):
    now = time.time_ns()
    stamp = 0 if offset is None else now + int(offset * SECOND)
    with pytest.raises(RefusedCommandError, match=r"header\.stamp" if offset is None else "clock"):
        validator.command(message(stamp), now, "someone")


def test_the_stamps_of_a_source_advance_and_those_of_another_are_its_own(validator):
    now = time.time_ns()
    validator.command(message(now), now, "someone")
    for stamp in (now, now - 1000):
        with pytest.raises(RefusedCommandError, match="advance"):
            validator.command(message(stamp), now, "someone")
    validator.command(message(now - 1000), now, "another")
    validator.command(message(now + 1), now, "someone")


def test_a_sender_whose_clock_differs_is_followed_and_what_it_sent_late_is_old(validator):
    offset, now = SECOND * 3 // 10, time.time_ns()
    fresh = validator.command(message(now - offset), now, "someone")
    assert time.monotonic() - fresh.received < 0.1
    time.sleep(0.2)
    now = time.time_ns()
    late = validator.command(message(now - offset - SECOND * 15 // 100), now, "someone")
    assert time.monotonic() - late.received >= 0.14


def test_a_clock_that_is_set_back_locks_nobody_out_and_the_number_of_sources_is_bounded_until_old_ones_make_room():
    now = [1_000 * SECOND]
    validator = TargetValidator(JOINTS, lambda: now[0])

    def follow(source):
        validator.command(message(now[0]), time.time_ns(), source)

    follow("publisher 0")
    now[0] -= 60 * SECOND
    for index in range(MAX_SOURCES):
        follow(f"publisher {index}")
    with pytest.raises(RefusedCommandError, match="publish"):
        follow("one more")
    now[0] += 1
    follow("publisher 0")
    now[0] += SECOND
    follow("one more")


def until_command(take):
    taken = []
    wait_until(lambda: taken.append(take()) or taken[-1], "a command")
    return taken[-1]


def test_targets_by_dds_are_those_of_a_named_publisher_and_too_large_ones_are_refused(node, validator):
    take = partial(take_command, IdentifiedMessages(node, JOINT_TRAJECTORY), validator)
    publisher = TargetPublisher(node, JOINTS)
    wait_until(lambda: publisher.publishers[0].get_subscription_count(), "a subscriber")
    publisher.publish(POSE)
    command = until_command(take)
    np.testing.assert_array_equal(command.targets, POSE)
    assert command.source.startswith("/dog/commander ")
    assert is_own(command.source, publisher.identity)
    assert publisher.identity == gid_of(publisher.publishers[0])
    assert not is_own(command.source, TargetPublisher(node, JOINTS).identity)
    assert is_own(command.source, b"")  # not known
    assert take() is None
    publisher.publishers[0].publish(message(time.time_ns()) + bytes(1_000_000))
    with pytest.raises(RefusedCommandError, match="bytes"):
        until_command(take)
    publisher.publish(None)
    assert until_command(take).targets is None


@pytest.fixture
def local(node, validator):
    """Targets from a local socket."""
    targets = LocalTargets(socket_name(node), validator.command)
    yield targets
    targets.close()


def test_targets_and_gains_come_by_the_local_socket(node, local):
    sender = LocalSender(socket_name(node))
    gains = serialize_message(String(data="gains"))
    sender.send_gains(gains)
    publisher = TargetPublisher(node, JOINTS, local=sender)
    publisher.publish(POSE)
    publisher.publish(None)
    command = until_command(local.take)
    assert command.targets is None  # the newest one
    assert is_own(command.source, publisher.identity)
    assert f"process {os.getpid()} " in command.source
    assert list(local.gains) == [gains]
    sender.close()


def test_a_sender_connects_again_and_offers_its_gains_again(node, validator):
    sender = LocalSender(socket_name(node))
    gains = serialize_message(String(data="gains"))
    sender.send_gains(gains)  # nobody is there
    for _ in range(2):
        local = LocalTargets(socket_name(node), validator.command)
        wait_until(lambda local=local: sender.send(message(time.time_ns())) or local.take(), "a command")
        assert list(local.gains) == [gains]
        local.close()
    sender.close()


def test_only_one_program_has_the_socket(node, local, validator):
    with pytest.raises(FcnetError, match="another program"):
        LocalTargets(socket_name(node), validator.command)


def test_targets_of_one_connection_take_nothing_from_another_one(node, local):
    senders = [LocalSender(socket_name(node)) for _ in range(3)]
    publishers = [TargetPublisher(node, JOINTS, local=sender) for sender in senders[:2]]
    for publisher in publishers:
        publisher.publish(POSE)
        until_command(local.take)
    senders[2].send(message(time.time_ns()))
    until_command(local.take)
    for publisher in publishers:
        publisher.publish(POSE)
    senders[2].send(message(1))  # refused: of 1970
    taken = [local.take() for _ in publishers]
    assert all(is_own(one.source, publisher.identity) for one, publisher in zip(taken, publishers, strict=True))
    with pytest.raises(RefusedCommandError):
        local.take()
    assert local.take() is None
    for sender in senders:
        sender.close()


def test_the_text_of_a_publisher_that_is_heard_stays_however_many_others_come(node, monkeypatch):
    monkeypatch.setattr("fcnet_ros.one_publisher.publisher_names", lambda _node, _topic: {b"own": "name"})
    messages = IdentifiedMessages(node, JOINT_TRAJECTORY)
    own = messages.publisher(b"own")
    for stranger in range(3 * MAX_PUBLISHERS):
        messages.publisher(stranger.to_bytes(4, "little"))
        assert messages.publisher(b"own") == own


@pytest.mark.parametrize("packet", [b"", b"T", b"G", b"x" * 60_000, b"H" + bytes(3), b"T" + message(1)])
def test_a_program_that_does_not_keep_to_the_protocol_is_disconnected(node, local, packet):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(socket_name(node))
        stranger.send(packet)
        stranger.settimeout(0.0)
        assert local.take() is None
        assert local.take() is None
        assert stranger.recv(10) == b""


def test_only_a_programs_own_user_and_root_are_trusted():
    assert is_trusted(os.geteuid())
    assert is_trusted(0)
    assert not is_trusted(OTHER_USER)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_a_program_of_another_user_is_refused(node, local):
    child = os.fork()
    if not child:
        os.setuid(OTHER_USER)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(socket_name(node))
            os._exit(0 if stranger.recv(10) == b"" else 1)
    refusals = []

    def refused():
        try:
            local.take()
        except RefusedCommandError as refusal:
            refusals.append(str(refusal))
        return refusals

    wait_until(refused, "a refusal")
    assert f"process {child} of user {OTHER_USER}" in refusals[0]
    assert os.waitpid(child, 0)[1] == 0


@given(st.permutations(range(3)))
def test_joints_are_matched_by_name_in_any_order(order):
    targets = joint_targets(THREE, [THREE[i] for i in order], [POSITIONS[i] for i in order], [], [])
    np.testing.assert_array_equal(targets, POSITIONS)


def test_velocities_of_zero_alone_mean_damp():
    assert joint_targets(THREE, THREE, [], [0.0] * 3, []) is None


@pytest.mark.parametrize(
    ("names", "positions", "velocities", "named"),
    [
        (THREE[:2], POSITIONS[:2], [], "missing .'tail'."),
        ((*THREE[:2], "hip"), POSITIONS, [], "unknown .'hip'."),
        ((*THREE, "tail"), [*POSITIONS, 0.0], [], "twice"),
        (THREE, POSITIONS[:2], [], "2 positions for 3 joints"),
        (THREE, [], [], "no positions"),
        (THREE, POSITIONS, [1.0] * 3, "positions only"),
        (THREE, [], [math.nan] * 3, "positions only"),
        (THREE, [*POSITIONS[:2], math.nan], [], "tail"),
        (THREE, [math.inf, *POSITIONS[1:]], [], "left_knee"),
    ],
)
def test_a_command_that_cannot_be_followed_is_refused(names, positions, velocities, named):
    with pytest.raises(RefusedCommandError, match=named):
        joint_targets(THREE, names, positions, velocities, [])


def gains(kp="20.0", kd="1.0"):
    tables = ("{" + ", ".join(f'"{joint}": {value}' for joint in JOINTS) + "}" for value in (kp, kd))
    return '{{"kp": {}, "kd": {}}}'.format(*tables)


def read(text):
    content = text if isinstance(text, bytes) else serialize_message(String(data=text))
    return read_gains(content, JOINTS)


def test_gains_are_read_in_the_order_of_the_joints():
    kp, kd = read(gains_text(JOINTS, np.arange(12.0).tolist(), (np.arange(12.0) / 10).tolist()))
    np.testing.assert_array_equal(kp, np.arange(12.0))
    np.testing.assert_array_equal(kd, np.arange(12.0) / 10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"kp": ' + "[" * 3000,
        f'{{"kp": {list(JOINTS)}, "kd": {list(JOINTS)}}}'.replace("'", '"'),
        '{"kp": {"FR_hip_joint": ' + "9" * 3900 + "}}",
        gains(kp="1" * 5000),
        *(gains(kd=value) for value in ("NaN", "Infinity", "-Infinity", "1e999", "-1", "true", "null", '"1"', "1e5")),
        gains().replace("FR_hip_joint", "tail_joint"),
        gains().replace("FR_hip_joint", "\\ud800"),
        gains().replace("FR_hip_joint", "x" * 1000),
        gains().replace('"kd"', '"ki"'),
        gains() + gains(),
        "x" * 10_000_000,
        b"",
        b"\0\1\0\0",
        b"\0\7\0\0" + b"\2\0\0\0a\0",
        b"\0\1\0\0" + b"\xff\xff\xff\xff" + b"a",
        b"\0\1\0\0" + b"\0\2\0\0" + b"a",
        b"\0\1\0\0" + b"\5\0\0\0" + b"\xff\xfe\x80\x81\0",
    ],
    ids=lambda text: repr(text[:30]),
)
def test_what_is_damaged_or_no_table_of_gains_is_refused_with_one_sentence(text):
    with pytest.raises(ValueError) as refusal:
        read(text)
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)
