"""What a bridge publishes and which targets it follows; what makes no sense is refused, and the bridge goes on."""

import json
import time

import numpy as np
import pytest
from ros_harness import COMMAND_PERIOD, stamp_of
from std_msgs.msg import String

from fcnet_core.names import BUTTONS, SECOND
from fcnet_ros.targets import gains_text
from fcnet_ros.topics import JOINT_GAINS, JOY
from unitree_lowlevel.codec import JOINTS, RemoteState
from unitree_lowlevel.driver import DriverMode
from unitree_lowlevel.fake_board.faults import BoardFaults


def test_it_publishes_the_boards_states_by_name_and_in_si_units(bridge, client, robot):
    joints, imus = client.watch_states(200)
    state, imu = joints[-1], imus[-1]
    assert tuple(state.name) == JOINTS
    np.testing.assert_allclose(state.position, robot.lie_pose, atol=0.02)
    assert len(state.velocity) == len(state.effort) == 12
    assert imu.header.frame_id == "imu_link"
    assert imu.orientation.w == pytest.approx(1.0, abs=0.01)
    assert imu.linear_acceleration.z == pytest.approx(9.81, abs=0.5)
    stamps = [stamp_of(message) for message in joints]
    assert (np.diff(stamps) > 0).all()
    assert abs(stamps[-1] - time.time_ns()) < 5 * SECOND


def test_targets_are_followed_as_ramps_until_they_are_reached(following, client, board, robot):
    board.commands.reset()
    risen = robot.lie_pose + 0.4 * (robot.stand_pose - robot.lie_pose)
    for target in np.linspace(robot.lie_pose, risen, 26):
        client.send_targets(target)
        time.sleep(COMMAND_PERIOD)
    client.send_targets(risen, 0.4)
    joints, _ = client.watch_states(10)  # damped by now, these weightless legs stay where they are
    np.testing.assert_allclose(joints[-1].position, risen, atol=0.05)
    held = np.array([command.position for _, command in board.commands.recent if command.stiffness.max() > 0])
    # 25 targets become ramps: the position on the wire changes several times for each of them.
    assert (np.abs(np.diff(held, axis=0)).max(axis=1) > 0).sum() > 2 * 25


def test_the_wireless_remote_is_a_joystick(bridge, client, board):
    board.faults = BoardFaults(remote=RemoteState(frozenset({"L1", "A"}), lx=-0.5, ly=1.0, rx=0.25, ry=-1.0, L2=0.0))
    client.until(lambda: JOY.name in client.newest and any(client.newest[JOY.name].buttons), "a pressed button")
    assert client.newest[JOY.name].header.frame_id == "unitree_remote"
    assert list(client.newest[JOY.name].axes) == [-0.5, 1.0, 0.25, -1.0, 0.0]
    pressed = {name for name, value in zip(BUTTONS, client.newest[JOY.name].buttons, strict=True) if value}
    assert pressed == {"L1", "A"}


@pytest.fixture
def unharmed(bridge, client):
    """The bridge, which is in its place and damps its robot also after the test."""
    yield bridge
    client.until_driver_mode(DriverMode.DAMPING)
    assert bridge.alive
    assert "Traceback" not in bridge.output


@pytest.mark.parametrize(
    "text",
    [
        b"x" * 20_000_000,
        json.dumps({"kp": dict.fromkeys(JOINTS, 1e4), "kd": dict.fromkeys(JOINTS, 2.0)}).encode(),
        json.dumps({"kp": dict.fromkeys(JOINTS[:11], 40.0), "kd": dict.fromkeys(JOINTS, 2.0)}).encode(),
    ],
    ids=["20 MB", "beyond bounds", "a joint is missing"],
)
def test_joint_gains_that_are_none_or_beyond_bounds_are_refused_and_keep_the_robot_from_following(
    unharmed, client, board, robot, text
):
    size = len(text) + 1
    client.gains.publish(b"\0\1\0\0" + size.to_bytes(4, "little") + text + b"\0")
    unharmed.until_printed(r"gains refused: (?!targets)\S.*\n")
    client.until(lambda: client.health.get("gains", "").startswith("refused"), "the refusal in the diagnostics")
    assert not client.is_followed(board, robot.lie_pose)


def test_the_gains_of_a_second_program_are_ignored(bridge, client, board, robot, make_node):
    gains = gains_text(JOINTS, [0.5 * robot.gains.kp] * 12, [robot.gains.kd] * 12)
    JOINT_GAINS.publisher(make_node("stranger")).publish(String(data=gains))
    bridge.until_printed("joint_gains of /stranger is ignored")
    client.follow(board, robot.lie_pose)
    assert board.commands.last.stiffness.max() == robot.gains.kp
