"""What arrives by DDS and makes no sense: it is refused with a sentence, and the bridge goes on."""

import json

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from std_msgs.msg import String

from fcnet_ros.targets import gains_text
from fcnet_ros.topics import JOINT_GAINS
from unitree_lowlevel.codec import JOINTS
from unitree_lowlevel.driver import DriverMode

NAME = "aliengo_bridge"


@pytest.fixture
def unharmed(bridge, client):
    """The bridge, which is in its place and damps its robot also after the test."""
    yield bridge
    client.until_driver_mode(DriverMode.DAMPING)
    assert bridge.alive
    assert "Traceback" not in bridge.output


@pytest.mark.parametrize(
    "transition",
    [
        Transition(id=250),
        Transition(id=Transition.TRANSITION_CONFIGURE),  # it is active
        Transition(id=Transition.TRANSITION_CALLBACK_ERROR),
        Transition(label="garbage \U0001f916" * 1000),
        Transition(label="transition_error"),
    ],
)
def test_a_transition_that_is_none_fails(unharmed, client, transition):
    assert not client.call(f"{NAME}/change_state", ChangeState, transition=transition).success


@pytest.mark.parametrize(
    "text",
    [
        b'{"kp": ["FR_hip_joint"], "kd": ["FR_hip_joint"]}',
        b"[" * 100_000,
        b"x" * 20_000_000,
        json.dumps({"kp": dict.fromkeys(JOINTS, 1e4), "kd": dict.fromkeys(JOINTS, 2.0)}).encode(),
        json.dumps({"kp": dict.fromkeys(JOINTS[:11], 40.0), "kd": dict.fromkeys(JOINTS, 2.0)}).encode(),
    ],
    ids=["lists", "nested", "20 MB", "beyond bounds", "a joint is missing"],
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
