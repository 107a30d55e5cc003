"""What a recording does not measure is unknown in figures, verdict, page and data, and a limit on it fails."""

import json
import warnings

import numpy as np
import pytest
from made_bag import IMU, JOINTS, MODE, ODOM, TARGETS, codes, stood_before, without

from fcnet_core.cli import main
from fcnet_core.errors import FcnetError
from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags
from fcnet_replay.evaluation import broken_thresholds, evaluate_bag
from fcnet_replay.report.page import page

NAN = float("nan")
UNKNOWN = {"p50": None, "p95": None, "p99": None, "max": None}


def changed(topic, change, since=0.0, before=lambda messages: messages):
    """An edit: `change` on every message of a topic that is received after `since` [s]."""

    def edit(messages):
        for time, name, message in (messages := before(messages)):
            if name == topic and time >= since:
                change(message)
        return messages

    return edit


def turned(*quaternion):
    def change(imu):
        imu.orientation.x, imu.orientation.y, imu.orientation.z, imu.orientation.w = quaternion

    return change


def unmeasured(quantity):
    def change(imu):
        getattr(imu, f"{quantity}_covariance")[0] = -1.0

    return change


def with_effort(*values):
    return lambda joints: setattr(joints, "effort", np.resize(values, 12 * bool(values)).astype(float))


NO_ORIENTATION = {
    "zeros": turned(0.0, 0.0, 0.0, 0.0),
    "length 2": turned(0.0, 0.0, 0.0, 2.0),
    "not finite": turned(NAN, 0.0, 0.0, 1.0),
    "covariance": unmeasured("orientation"),
}


@pytest.mark.parametrize("how", NO_ORIENTATION)
def test_no_orientation_is_an_unknown_tilt_everywhere(write_bag, tmp_path, how, capsys) -> None:
    bag, outputs = (
        write_bag(seconds=1.0, edit=changed(IMU, NO_ORIENTATION[how])),
        [tmp_path / "r.json", tmp_path / "r.html"],
    )
    limit = "motion.tilt_rad.max=0.4"
    arguments = ["--robot", "aliengo", "--fail-above", limit, "--json", str(outputs[0]), "--report", str(outputs[1])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["replay", str(bag), *arguments]) == 1
    said = capsys.readouterr()
    assert "not known" in said.err and "tilted by at most" not in said.out
    assert json.loads(outputs[0].read_text())["motion"]["tilt_rad"] == UNKNOWN
    assert "Tilt, roll and pitch are not known" in outputs[1].read_text()
    evaluation = evaluate_bag(bag, robot_name="aliengo")
    found = codes(evaluation)
    assert (found["unknown"], found["tilt_unknown"], found["nothing_compared"]) == ("bad",) * 3
    with pytest.raises(FcnetError):
        dataset_from_bags([bag], tmp_path / "data", BagReading("aliengo"), lambda line: None)


def test_a_part_without_orientation_fails_the_limit_and_is_left_out_of_data(write_bag, tmp_path) -> None:
    bag = write_bag(seconds=4.0, edit=changed(IMU, NO_ORIENTATION["zeros"], 2.0, stood_before))
    evaluation = evaluate_bag(bag, robot_name="aliengo")
    tilt = evaluation.figures["motion"]["tilt_rad"]
    assert tilt["max"] == pytest.approx(0.1) and tilt["unknown_share"] == pytest.approx(0.5, abs=0.01)
    assert codes(evaluation)["tilt"] == "bad"
    assert broken_thresholds(evaluation.figures, [("motion.tilt_rad.max", 0.4)])
    data = dataset_from_bags([bag], tmp_path / "data", BagReading("aliengo"), lambda line: None)
    assert 80 < data.steps <= 101


def test_an_imu_that_falls_silent_is_no_measured_tilt(write_bag) -> None:
    edit = changed(IMU, lambda imu: None, before=lambda messages: [m for m in messages if m[1] != IMU or m[0] < 0.5])
    evaluation = evaluate_bag(write_bag(seconds=1.0, edit=edit), robot_name="aliengo")
    assert evaluation.figures["motion"]["tilt_rad"]["unknown_share"] > 0.4
    assert broken_thresholds(evaluation.figures, [("motion.tilt_rad.max", 0.4)])


def test_a_rate_that_is_not_measured_replays_nothing_and_gives_no_contacts(write_bag, tmp_path) -> None:
    bag = write_bag(seconds=1.0, edit=changed(IMU, unmeasured("angular_velocity")))
    evaluation = evaluate_bag(bag, robot_name="aliengo")
    assert evaluation.figures["policies"]["A"]["action_error_rad"]["max"] is None
    assert codes(evaluation)["nothing_compared"] == "bad"
    assert "The gait is not known: the run has no orientation or no angular velocity" in page(evaluation)


def test_states_alone_that_cannot_be_replayed_are_not_a_replay(write_bag) -> None:
    bag = write_bag(without=(TARGETS, "controller/policy_step"), edit=changed(IMU, NO_ORIENTATION["zeros"]))
    assert codes(evaluate_bag(bag, robot_name="aliengo"))["nothing_compared"] == "bad"


@pytest.mark.parametrize("efforts", [(0.0,), (NAN,), ()], ids=["zero", "not finite", "absent"])
def test_torques_that_are_not_measured_are_unknown(write_bag, efforts) -> None:
    evaluation = evaluate_bag(write_bag(seconds=1.0, edit=changed(JOINTS, with_effort(*efforts))), robot_name="aliengo")
    motion = evaluation.figures["motion"]
    assert motion["torque_of_limit"]["FR_hip_joint"] == UNKNOWN and motion["share_of_time_at_torque_limit"] is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "Torque is not known" in page(evaluation)


def test_torques_of_a_part_fail_their_limit(write_bag) -> None:
    figures = evaluate_bag(
        write_bag(seconds=1.0, edit=changed(JOINTS, with_effort(NAN), 0.7)), robot_name="aliengo"
    ).figures
    assert broken_thresholds(figures, [("motion.torque_of_limit.FR_hip_joint.max", 1.0)])


def test_an_odometry_of_a_part_fails_limits_on_tracking(write_bag) -> None:
    bag = write_bag(seconds=2.0, edit=without(1.0, 9.0, ODOM))
    figures = evaluate_bag(bag, robot_name="aliengo").figures
    assert broken_thresholds(figures, [("tracking.forward_m_s.rmse", 1.0)])


def test_odometry_without_orientation_is_none(write_bag) -> None:
    edit = changed(ODOM, lambda odom: turned(0.0, 0.0, 0.0, 0.0)(odom.pose.pose))
    run = evaluate_bag(write_bag(seconds=1.0, edit=edit), robot_name="aliengo").run
    assert not len(run.odometry.known("position", "orientation").stamp)
    assert len(run.odometry.known("position", "velocity").stamp) == 250


@pytest.mark.parametrize(
    ("topics", "metric"),
    [
        ((ODOM,), "tracking.forward_m_s.rmse"),
        ((MODE,), "modes_s.fault"),
        ((TARGETS, MODE), "timing.start_delay_s.odom"),
        ((MODE,), "timing.start_delay_s.joint_trajectory"),
        ((TARGETS,), "timing.topics.joint_trajectory.gaps"),
        ((TARGETS,), "motion.joint_tracking_error_rad"),
        ((TARGETS,), "motion.share_of_targets_at_position_limit"),
        (("controller/policy_step",), "timing.state_to_target_s.max"),
    ],
)
def test_a_limit_on_a_figure_whose_topic_is_missing_fails(write_bag, topics, metric) -> None:
    figures = evaluate_bag(write_bag(seconds=1.0, without=topics), robot_name="aliengo").figures
    (sentence,) = broken_thresholds(figures, [(metric, 1e9)])
    assert sentence.startswith(f"{metric} is not known")


def test_without_stamps_nothing_is_late_or_in_time(write_bag) -> None:
    edit = changed(
        JOINTS, lambda joints: (setattr(joints.header.stamp, "sec", 0), setattr(joints.header.stamp, "nanosec", 0))
    )
    figures = evaluate_bag(write_bag(seconds=1.0, edit=edit), robot_name="aliengo").figures["timing"]["topics"][JOINTS]
    assert (figures["late"], figures["delay_s"]) == (None, UNKNOWN)


def test_a_mode_that_a_recording_with_modes_lacks_lasted_no_time(write_bag) -> None:
    figures = evaluate_bag(write_bag(seconds=1.0), robot_name="aliengo").figures
    assert broken_thresholds(figures, [("modes_s.fault", 0.0)]) == []


NEVER_MEASURED = {  # while another quantity of the message changes with time [s]
    "nothing_compared": (JOINTS, lambda joints, time: setattr(joints, "velocity", np.zeros(12))),
    "tilt_unknown": (IMU, lambda imu, time: setattr(imu.angular_velocity, "x", np.sin(9 * time))),
    "no_odom": (ODOM, lambda odom, time: setattr(odom.pose.pose.position, "x", time)),
}


@pytest.mark.parametrize("code", NEVER_MEASURED)
def test_what_never_changes_though_the_robot_moves_is_unknown(write_bag, code) -> None:
    topic, change = NEVER_MEASURED[code]

    def edit(messages):
        for time, name, message in messages:
            if name == topic:
                change(message, time)
        return messages

    found = codes(evaluate_bag(write_bag(seconds=1.0, edit=edit), robot_name="aliengo"))
    assert found["unknown"] == "bad" and code in found


@pytest.mark.parametrize(
    ("topic", "change"),
    [
        (JOINTS, lambda joints: setattr(joints, "position", np.degrees(joints.position))),
        (IMU, turned(1.0, 0.0, 0.0, 0.0)),
    ],
)
def test_states_in_which_no_controller_walks_become_no_data(write_bag, tmp_path, topic, change) -> None:
    bag = write_bag(seconds=1.0, edit=changed(topic, change, before=stood_before))
    with pytest.raises(FcnetError):
        dataset_from_bags([bag], tmp_path / "data", BagReading("aliengo"), print)
