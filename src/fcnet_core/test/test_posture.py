import numpy as np
import pytest

from fcnet_core import FcnetError
from fcnet_core.command import Mode
from fcnet_core.posture import Posture
from fcnet_core.robot import load_robot

PERIOD = 0.02


@pytest.fixture(scope="module")
def robot():
    return load_robot("aliengo")


@pytest.fixture
def posture(robot):
    return Posture(robot, stand_up_time=1.0, lie_down_time=1.0)


def let_pass(posture, seconds, measured=None, at_rest=True):
    """Advance, with a robot that follows its targets unless `measured` says where it is."""
    poses = []
    for _ in range(round(seconds / PERIOD)):
        pose = posture.pose()
        poses.append(pose)
        posture.advance(PERIOD, pose if measured is None else measured, pose, at_rest)
    return np.array(poses)


def stand(posture, robot):
    posture.stand_up(robot.lie_pose)
    let_pass(posture, 1.2)
    assert posture.mode is Mode.STANDING


def test_a_lying_robot_stands_up_walks_and_lies_down_again(posture, robot):
    assert posture.mode is Mode.PASSIVE
    posture.stand_up(robot.lie_pose)
    assert posture.mode is Mode.STANDING_UP
    let_pass(posture, 1.2)
    assert posture.mode is Mode.STANDING
    posture.walk()
    assert posture.mode is Mode.WALKING
    posture.lie_down(robot.stand_pose)
    let_pass(posture, 1.2)
    assert posture.mode is Mode.PASSIVE


def test_standing_up_begins_at_the_measured_pose_and_moves_smoothly(posture, robot):
    measured = robot.lie_pose + 0.05
    posture.stand_up(measured)
    poses = let_pass(posture, 1.2)
    np.testing.assert_allclose(poses[0], measured)
    np.testing.assert_allclose(poses[-1], robot.stand_pose)
    velocity = np.diff(poses, axis=0) / PERIOD
    assert np.abs(velocity[0]).max() < 0.05
    assert np.abs(velocity).max() < 3.0
    assert np.abs(np.diff(velocity, axis=0)).max() < 0.5


def test_sprawled_legs_are_folded_before_they_push(posture, robot):
    sprawled = robot.lie_pose.copy()
    sprawled[[0, 3, 6, 9]] = [-0.8, 0.8, -0.8, 0.8]
    posture.stand_up(sprawled)
    poses = let_pass(posture, 3.0)
    assert np.abs(poses - robot.lie_pose).max(axis=1).min() < 0.01
    np.testing.assert_allclose(poses[-1], robot.stand_pose)


def test_a_robot_that_cannot_rise_ends_in_fault_and_names_the_joint(posture, robot):
    stuck = robot.stand_pose.copy()
    stuck[5] = robot.lie_pose[5]
    posture.stand_up(robot.lie_pose)
    let_pass(posture, 1.5, measured=stuck)
    assert posture.mode is Mode.STANDING_UP
    let_pass(posture, 1.0, measured=stuck)
    assert posture.mode is Mode.FAULT
    assert "FL_calf_joint" in posture.fault


@pytest.mark.parametrize("mode", [Mode.PASSIVE, Mode.STANDING_UP, Mode.LYING_DOWN])
def test_walking_is_refused_unless_the_robot_stands(posture, robot, mode):
    if mode is not Mode.PASSIVE:
        posture.stand_up(robot.lie_pose)
    if mode is Mode.LYING_DOWN:
        posture.lie_down(robot.lie_pose)
    with pytest.raises(FcnetError, match="stand_up"):
        posture.walk()
    assert posture.mode is mode


def test_a_walking_robot_comes_to_rest_before_it_lies_down(posture, robot):
    stand(posture, robot)
    posture.walk()
    posture.lie_down(robot.stand_pose)
    let_pass(posture, 1.0, at_rest=False)
    assert posture.mode is Mode.WALKING
    let_pass(posture, PERIOD, at_rest=True)
    assert posture.mode is Mode.LYING_DOWN


def test_walk_takes_back_a_request_to_stand(posture, robot):
    stand(posture, robot)
    posture.walk()
    posture.stand_up(robot.stand_pose)
    posture.walk()
    let_pass(posture, 0.5)
    assert posture.mode is Mode.WALKING


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_fault_is_entered_from_everywhere_and_left_only_by_reset(posture, robot, steps):
    requests = [
        lambda: posture.stand_up(robot.lie_pose),
        lambda: let_pass(posture, 1.2),
        lambda: posture.walk(),
    ]
    for request in requests[:steps]:
        request()
    posture.fail("the first reason")
    posture.fail("another reason")
    assert posture.fault == "the first reason"
    for request in (lambda: posture.stand_up(robot.lie_pose), posture.walk, lambda: posture.lie_down(robot.lie_pose)):
        with pytest.raises(FcnetError, match=r"the first reason.*~/reset"):
            request()
    let_pass(posture, 2.0)
    assert posture.mode is Mode.FAULT
    posture.reset()
    assert posture.mode is Mode.PASSIVE
    assert posture.fault == ""
