"""The demo's courses, their score and its table."""

import math

import numpy as np
import pytest
from geometry_msgs.msg import Quaternion
from nav_msgs.msg import Odometry
from std_msgs.msg import String

from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.names import CONTROLLER, Mode
from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_ros.topics import MODE
from fcnet_teleop.course import COURSES, STANDSTILL, CourseScore, Section, section_at
from quadruped_sim.physics.terrain import named_terrain

UPRIGHT = Quaternion(w=1.0)
ON_ITS_SIDE = Quaternion(x=math.sin(math.pi / 4), w=math.cos(math.pi / 4))
FORWARD = Section("forward", 10.0, vx=0.5)


def odometry(x=0.0, orientation=UPRIGHT, vx=0.0, yaw_rate=0.0):
    message = Odometry()
    message.pose.pose.position.x, message.pose.pose.orientation = x, orientation
    message.twist.twist.linear.x, message.twist.twist.angular.z = vx, yaw_rate
    return message


def scored(messages, period=1.0):
    """The score of a robot that walks forward, with one odometry message every period [s]."""
    score = CourseScore()
    for number, message in enumerate(messages):
        score.update(message, period * number, FORWARD, period * number)
    return score


@pytest.mark.parametrize("course", COURSES.values(), ids=COURSES)
@pytest.mark.parametrize("robot", ["aliengo", "a1"])
def test_the_policies_of_both_robots_accept_everything_a_course_asks_for(robot, course):
    shaper = load_model(shipped_model(robot)).command_shaper()
    for section in course:
        shaper.step([[getattr(section, field, 0.0) for field in SETPOINT_FIELDS]])
        assert shaper.limited() == "", section.name


@pytest.mark.parametrize("course", COURSES.values(), ids=COURSES)
def test_sections_follow_one_another_and_then_the_course_ends(course):
    duration = sum(section.duration for section in course)
    places = [section_at(course, 0.01 + 0.1 * tick) for tick in range(int(duration * 10))]
    assert tuple(dict.fromkeys(place[0] for place in places if place)) == course
    assert section_at(course, duration + 0.01) is None


def test_a_robot_on_the_normal_course_has_left_the_step_behind_before_it_turns():
    ground, sections = named_terrain("course"), COURSES["normal"]
    way = sum(section.vx * section.duration for section in sections[:2])
    assert [section.name for section in sections[:3]] == ["slope", "step", "turn"]
    assert way > ground.end + 0.5, "it may be slower than its command on the ramps"
    assert sections[2].yaw_rate * sections[2].duration == pytest.approx(2 * math.pi, abs=0.1)


def test_a_fall_counts_once_until_the_robot_is_up_again_and_a_recovery_is_reported():
    orientations = (UPRIGHT, ON_ITS_SIDE, ON_ITS_SIDE, UPRIGHT, ON_ITS_SIDE)
    score = scored(odometry(orientation=orientation) for orientation in orientations)
    assert score.falls == 2
    score.recovery = 6.5
    report = score.report(37.2, {}, {})
    assert "6.5 s" in report
    assert "37.2 s" in report


def test_the_control_rate_is_all_cycles_by_all_time_and_unknown_without_two_diagnostics():
    first, last = {"cycles": "50", "loop_time_s": "1.5"}, {"cycles": "2550", "loop_time_s": "51.5", "rate_hz": "49.02"}
    assert "  control rate     50.00 Hz\n" in scored([]).report(50.0, first, last)
    assert "  control rate     ? Hz\n" in scored([]).report(50.0, {}, last)


def test_distance_is_the_length_of_the_way():
    assert scored(odometry(x) for x in (0.0, 1.0, 0.0)).distance == pytest.approx(2.0)


def test_sway_within_a_stride_is_no_tracking_error_but_a_bias_is():
    speeds = [0.45 + 0.2 * math.sin(2 * math.pi * tick / 50) for tick in range(1000)]
    score = scored((odometry(vx=vx, yaw_rate=0.1) for vx in speeds), period=0.01)
    np.testing.assert_allclose(score.tracking_error, [0.05, 0.0, 0.1], atol=0.01)


def test_errors_do_not_count_while_a_new_command_settles_or_outside_the_course():
    score = CourseScore()
    for tick in range(100):
        score.update(odometry(), 0.01 * tick, FORWARD, 0.01 * tick)
        score.update(odometry(), 0.01 * tick, STANDSTILL, 0.0)
    assert np.isnan(score.tracking_error).all()


def test_the_demo_of_a_robot_that_does_not_walk_fails(start, client):
    MODE.of(CONTROLLER).publisher(client.node).publish(String(data=Mode.WALKING.value))
    demo = start("fcnet_teleop.demo_course", real_time_factor=20.0)
    assert demo.wait() == 1
    assert "Failed: the robot walked 0.0 m" in demo.output
