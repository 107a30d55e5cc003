"""The posture machine of every robot: with legs, with legs and a tail, and without legs and a lying pose."""

import numpy as np
import pytest
from made_robots import BIPED, TAILED
from msgspec import structs

from fcnet_core.errors import FcnetError
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.legs.posture import Posture
from fcnet_core.legs.stand_motion import FOLDING_SPEED, stand_path
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState
from fcnet_core.robot import BodyFile, load_robot
from fcnet_core.rotation import projected_gravity

PERIOD = 0.02
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


@pytest.fixture(scope="module", params=["aliengo", TAILED, BIPED, None], ids=["aliengo", "tailed", "biped", "file"])
def robot(request):
    if request.param is not None:
        return load_robot(request.param)
    # without lengths of its legs
    return structs.replace(load_robot("aliengo"), primitives=None, model=BodyFile("aliengo.xml", root="trunk"))


@pytest.fixture(scope="module")
def legged():
    return load_robot("aliengo")


@pytest.fixture
def posture(request):
    name = "legged" if "legged" in request.fixturenames else "robot"
    return Posture(request.getfixturevalue(name), stand_up_time=1.0, lie_down_time=1.0)


def start_of(robot):
    """Joints of a robot at rest: lying or, without such a pose, standing with bent knees."""
    return robot.stand_pose + 0.3 if robot.lie_pose is None else robot.lie_pose


def let_pass(posture, seconds, measured=None, at_rest=True):
    """Advance with joints that stay at `measured`, or follow the targets; return the targets."""
    targets = []
    for _ in range(round(seconds / PERIOD)):
        targets.append(posture.pose())
        joints = targets[-1] if measured is None else measured
        posture.advance(PERIOD, RobotState(joints, 0 * joints, LEVEL, np.zeros(3)), targets[-1], at_rest)
    return np.array(targets)


def stand(posture, robot):
    posture.stand_up(start_of(robot), LEVEL)
    assert posture.mode is Mode.STANDING_UP
    let_pass(posture, 1.6, robot.stand_pose)
    assert posture.mode is Mode.STANDING


def assert_smooth(targets):
    velocity = np.diff(targets, axis=0) / PERIOD
    assert np.abs(velocity[0]).max() < 0.1 and np.abs(velocity).max() < 5.0
    assert np.abs(np.diff(velocity, axis=0)).max() < 1.0


def test_a_robot_stands_up_walks_and_lies_down_again(posture, robot):
    assert posture.mode is Mode.PASSIVE
    stand(posture, robot)
    posture.walk()
    posture.stand_up(robot.stand_pose, LEVEL)
    posture.walk()  # takes back the request to stand
    let_pass(posture, 0.5, robot.stand_pose)
    assert posture.mode is Mode.WALKING
    posture.lie_down(robot.stand_pose)
    let_pass(posture, 1.0, robot.stand_pose, at_rest=False)
    assert posture.mode is Mode.WALKING  # it comes to rest first
    let_pass(posture, 0.6, robot.stand_pose)
    assert posture.mode is (Mode.PASSIVE if robot.lie_pose is None else Mode.LYING_DOWN)
    let_pass(posture, 2.1, robot.stand_pose)
    assert posture.mode is Mode.PASSIVE


def test_standing_up_and_lying_down_begin_at_the_targets_there_are_and_move_smoothly(posture, robot):
    measured = start_of(robot) + 0.05
    posture.stand_up(measured, LEVEL)
    rise = let_pass(posture, 2.0)
    np.testing.assert_allclose(rise[0], measured)
    assert_smooth(rise)
    assert posture.mode is Mode.STANDING
    posture.lie_down(rise[-1])
    if robot.lie_pose is None:
        assert posture.mode is Mode.PASSIVE and not posture.commands_joints
        return
    descent = let_pass(posture, 1.3)
    np.testing.assert_allclose(descent[0], rise[-1], atol=1e-3)
    assert_smooth(descent)


@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.0])
def test_a_robot_on_its_way_up_lies_down_and_rises_again_from_where_it_is(posture, robot, seconds):
    start = start_of(robot)
    posture.stand_up(start, LEVEL)
    targets = [*let_pass(posture, seconds, start)]
    posture.lie_down(targets[-1])
    targets += [*let_pass(posture, 0.3, start)] if posture.commands_joints else []
    posture.stand_up(targets[-1], LEVEL)
    targets += [*let_pass(posture, 2.0, robot.stand_pose)]
    assert posture.mode is Mode.STANDING
    assert np.abs(np.diff(targets, axis=0)).max() < 0.1


def test_a_robot_without_legs_moves_in_a_straight_line_as_slowly_as_one_folds_its_legs():
    robot = load_robot(BIPED)
    posture, start = Posture(robot, stand_up_time=0.1, lie_down_time=0.1), robot.lower
    posture.stand_up(start, LEVEL)
    targets, way = let_pass(posture, 4.0), robot.stand_pose - start
    share = (targets - start) @ way / (way @ way)
    np.testing.assert_allclose(targets, start + share[:, None] * way, atol=1e-9)
    assert np.abs(np.diff(targets, axis=0)).max() <= 2.0 * FOLDING_SPEED * PERIOD  # minimum jerk: 1.9 times the average
    assert posture.mode is Mode.STANDING


def test_a_tail_moves_between_its_poses_while_the_legs_move_as_those_of_a_robot_without_one(legged):
    robot = load_robot(TAILED)
    tail = robot.joint_names.index("tail_joint")
    postures = [Posture(one, stand_up_time=1.0, lie_down_time=1.0) for one in (robot, legged)]
    for posture, one in zip(postures, (robot, legged), strict=True):
        posture.stand_up(one.lie_pose, LEVEL)
    rise, other = (let_pass(posture, 1.5) for posture in postures)
    np.testing.assert_allclose(rise[:, robot.leg_rows], other[:, legged.leg_rows], atol=0.01)
    assert rise[0, tail] == robot.lie_pose[tail] and (np.diff(rise[:, tail]) >= 0).all()
    np.testing.assert_allclose(rise[-1, tail], robot.stand_pose[tail])


def test_targets_are_ahead_of_the_stand_pose_by_the_torque_that_carries_the_robot(posture, legged):
    stand(posture, legged)
    torque = (posture.pose() - legged.stand_pose) * legged.kp
    carried = torque[2::3].sum() / (legged.geometry.calf * np.sin(0.7))
    assert carried == pytest.approx(legged.mass * 9.81, rel=0.15)
    np.testing.assert_allclose(torque[[0, 6]], -torque[[3, 9]], atol=1.0)


@pytest.mark.parametrize("axis", [0, 1])
def test_on_a_slope_the_feet_stand_below_the_trunk(legged, axis):
    angle = 0.2
    orientation = np.array([0.0, 0.0, 0.0, np.cos(angle / 2)])
    orientation[axis] = np.sin(angle / 2)
    legs, path = LegKinematics(legged), stand_path(legged)
    path.start(legged.stand_pose, orientation)
    feet = legs.feet(path.pose(1.0)[legged.leg_rows])[0].mean(axis=0) - [0, 0, legged.geometry.foot_radius]
    down = projected_gravity(orientation)
    level = legs.feet(legged.stand_pose[legged.leg_rows])[0].mean(axis=0)
    np.testing.assert_allclose(feet[:2] / feet[2], down[:2] / down[2] + level[:2] / feet[2], atol=1e-3)


def test_sprawled_legs_are_folded_before_they_push(posture, legged):
    sprawled = legged.lie_pose.copy()
    sprawled[[0, 3, 6, 9]] = [-0.8, 0.8, -0.8, 0.8]
    sprawled[[1, 4, 7, 10]] = 0.3
    posture.stand_up(sprawled, LEVEL)
    poses = let_pass(posture, 4.0, legged.stand_pose)
    assert np.abs(poses - stand_path(legged).pose(0.0)).max(axis=1).min() < 0.01
    assert posture.mode is Mode.STANDING


def test_a_robot_that_cannot_rise_ends_in_fault_and_names_the_joint(posture, robot):
    stuck = robot.stand_pose.copy()
    stuck[5] -= 0.5
    posture.stand_up(start_of(robot), LEVEL)
    let_pass(posture, 1.8, stuck)
    assert posture.mode is Mode.STANDING_UP
    let_pass(posture, 1.0, stuck)
    assert posture.mode is Mode.FAULT
    assert robot.joint_names[5] in posture.fault


@pytest.mark.parametrize("mode", [Mode.PASSIVE, Mode.STANDING_UP, Mode.LYING_DOWN])
def test_walking_is_refused_unless_the_robot_stands(posture, legged, mode):
    if mode is not Mode.PASSIVE:
        posture.stand_up(legged.lie_pose, LEVEL)
    if mode is Mode.LYING_DOWN:
        posture.lie_down(legged.lie_pose)
    with pytest.raises(FcnetError, match="stand_up"):
        posture.walk()
    assert posture.mode is mode


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_fault_is_entered_from_everywhere_and_left_only_by_reset(posture, robot, steps):
    requests = [lambda: posture.stand_up(start_of(robot), LEVEL), lambda: let_pass(posture, 1.6, robot.stand_pose)]
    for request in [*requests, posture.walk][:steps]:
        request()
    posture.fail("the first reason")
    posture.fail("another reason")
    assert posture.fault == "the first reason"
    for request in (requests[0], posture.walk, lambda: posture.lie_down(robot.stand_pose)):
        with pytest.raises(FcnetError, match=r"the first reason.*~/reset"):
            request()
    let_pass(posture, 2.0, robot.stand_pose)
    assert posture.mode is Mode.FAULT
    posture.reset()
    assert posture.mode is Mode.PASSIVE and not posture.fault
