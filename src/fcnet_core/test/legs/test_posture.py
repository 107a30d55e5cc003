import numpy as np
import pytest

from fcnet_core.errors import FcnetError
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.legs.posture import Posture
from fcnet_core.legs.stand_motion import StandPath
from fcnet_core.names import Mode
from fcnet_core.robot import load_robot
from fcnet_core.rotation import projected_gravity

PERIOD = 0.02
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


@pytest.fixture(scope="module")
def robot():
    return load_robot("aliengo")


@pytest.fixture
def posture(robot):
    return Posture(robot, stand_up_time=1.0, lie_down_time=1.0)


def let_pass(posture, seconds, measured=None, at_rest=True, orientation=LEVEL):
    """Advance with joints that stay at `measured`, or follow the targets; return the targets."""
    targets = []
    for _ in range(round(seconds / PERIOD)):
        targets.append(posture.pose())
        joints = targets[-1] if measured is None else measured
        posture.advance(PERIOD, joints, orientation, targets[-1], at_rest)
    return np.array(targets)


def stand(posture, robot):
    posture.stand_up(robot.lie_pose, LEVEL)
    let_pass(posture, 1.6, robot.stand_pose)
    assert posture.mode is Mode.STANDING


def test_a_lying_robot_stands_up_walks_and_lies_down_again(posture, robot):
    assert posture.mode is Mode.PASSIVE
    posture.stand_up(robot.lie_pose, LEVEL)
    assert posture.mode is Mode.STANDING_UP
    let_pass(posture, 1.6, robot.stand_pose)
    assert posture.mode is Mode.STANDING
    posture.walk()
    assert posture.mode is Mode.WALKING
    posture.lie_down(robot.stand_pose)
    let_pass(posture, 2.7, robot.stand_pose)
    assert posture.mode is Mode.PASSIVE


def assert_smooth(targets):
    velocity = np.diff(targets, axis=0) / PERIOD
    assert np.abs(velocity[0]).max() < 0.1
    assert np.abs(velocity).max() < 5.0
    assert np.abs(np.diff(velocity, axis=0)).max() < 1.0


def test_standing_up_and_lying_down_begin_at_the_targets_there_are_and_move_smoothly(posture, robot):
    measured = robot.lie_pose + 0.05
    posture.stand_up(measured, LEVEL)
    rise = let_pass(posture, 2.0)
    np.testing.assert_allclose(rise[0], measured)
    assert_smooth(rise)
    posture.lie_down(rise[-1])
    descent = let_pass(posture, 1.3)
    np.testing.assert_allclose(descent[0], rise[-1], atol=1e-3)
    assert_smooth(descent)


@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.0])
def test_a_robot_on_its_way_up_lies_down_and_rises_again_from_where_it_is(posture, robot, seconds):
    posture.stand_up(robot.lie_pose, LEVEL)
    targets = [*let_pass(posture, seconds, robot.lie_pose)]
    posture.lie_down(targets[-1])
    targets += [*let_pass(posture, 0.3, robot.lie_pose)]
    posture.stand_up(targets[-1], LEVEL)
    targets += [*let_pass(posture, 2.0, robot.stand_pose)]
    assert posture.mode is Mode.STANDING
    assert np.abs(np.diff(targets, axis=0)).max() < 0.1


def test_targets_are_ahead_of_the_stand_pose_by_the_torque_that_carries_the_robot(posture, robot):
    stand(posture, robot)
    torque = (posture.pose() - robot.stand_pose) * robot.gains.kp
    carried = torque[2::3].sum() / (robot.geometry.calf * np.sin(0.7))
    assert carried == pytest.approx(robot.mass * 9.81, rel=0.15)
    np.testing.assert_allclose(torque[[0, 6]], -torque[[3, 9]], atol=1.0)


@pytest.mark.parametrize("axis", [0, 1])
def test_on_a_slope_the_feet_stand_below_the_trunk(robot, axis):
    angle = 0.2
    orientation = np.array([0.0, 0.0, 0.0, np.cos(angle / 2)])
    orientation[axis] = np.sin(angle / 2)
    legs = LegKinematics(robot)
    pose = StandPath(robot)
    pose.lean(orientation)
    feet = legs.feet(pose.pose(1.0).reshape(4, 3))[0].mean(axis=0) - [0, 0, robot.geometry.foot_radius]
    down = projected_gravity(orientation)
    level = legs.feet(robot.stand_pose.reshape(4, 3))[0].mean(axis=0)
    np.testing.assert_allclose(feet[:2] / feet[2], down[:2] / down[2] + level[:2] / feet[2], atol=1e-3)


def test_sprawled_legs_are_folded_before_they_push(posture, robot):
    sprawled = robot.lie_pose.copy()
    sprawled[[0, 3, 6, 9]] = [-0.8, 0.8, -0.8, 0.8]
    sprawled[[1, 4, 7, 10]] = 0.3
    posture.stand_up(sprawled, LEVEL)
    poses = let_pass(posture, 4.0, robot.stand_pose)
    folded = StandPath(robot).pose(0.0)
    assert np.abs(poses - folded).max(axis=1).min() < 0.01
    assert posture.mode is Mode.STANDING


def test_a_robot_that_cannot_rise_ends_in_fault_and_names_the_joint(posture, robot):
    stuck = robot.stand_pose.copy()
    stuck[5] = robot.lie_pose[5]
    posture.stand_up(robot.lie_pose, LEVEL)
    let_pass(posture, 1.8, stuck)
    assert posture.mode is Mode.STANDING_UP
    let_pass(posture, 1.0, stuck)
    assert posture.mode is Mode.FAULT
    assert "FL_calf_joint" in posture.fault


@pytest.mark.parametrize("mode", [Mode.PASSIVE, Mode.STANDING_UP, Mode.LYING_DOWN])
def test_walking_is_refused_unless_the_robot_stands(posture, robot, mode):
    if mode is not Mode.PASSIVE:
        posture.stand_up(robot.lie_pose, LEVEL)
    if mode is Mode.LYING_DOWN:
        posture.lie_down(robot.lie_pose)
    with pytest.raises(FcnetError, match="stand_up"):
        posture.walk()
    assert posture.mode is mode


def test_a_walking_robot_comes_to_rest_before_it_lies_down(posture, robot):
    stand(posture, robot)
    posture.walk()
    posture.lie_down(robot.stand_pose)
    let_pass(posture, 1.0, robot.stand_pose, at_rest=False)
    assert posture.mode is Mode.WALKING
    let_pass(posture, 0.6, robot.stand_pose, at_rest=True)
    assert posture.mode is Mode.LYING_DOWN


def test_walk_takes_back_a_request_to_stand(posture, robot):
    stand(posture, robot)
    posture.walk()
    posture.stand_up(robot.stand_pose, LEVEL)
    posture.walk()
    let_pass(posture, 0.5, robot.stand_pose)
    assert posture.mode is Mode.WALKING


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_fault_is_entered_from_everywhere_and_left_only_by_reset(posture, robot, steps):
    requests = [
        lambda: posture.stand_up(robot.lie_pose, LEVEL),
        lambda: let_pass(posture, 1.6, robot.stand_pose),
        lambda: posture.walk(),
    ]
    for request in requests[:steps]:
        request()
    posture.fail("the first reason")
    posture.fail("another reason")
    assert posture.fault == "the first reason"
    for request in (
        lambda: posture.stand_up(robot.lie_pose, LEVEL),
        posture.walk,
        lambda: posture.lie_down(robot.lie_pose),
    ):
        with pytest.raises(FcnetError, match=r"the first reason.*~/reset"):
            request()
    let_pass(posture, 2.0, robot.stand_pose)
    assert posture.mode is Mode.FAULT
    posture.reset()
    assert posture.mode is Mode.PASSIVE
    assert posture.fault == ""
