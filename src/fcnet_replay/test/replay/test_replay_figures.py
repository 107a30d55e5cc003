"""The figures of bags with faults of known size are that size; what a recording does not measure is unknown."""

import json
import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from made_bag import IMU, JOINTS, MODE, ODOM, STEPS, TARGETS, codes, stood_before, without

from fcnet_core.cli import main
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import save_model
from fcnet_replay.datasets.from_bag import BagReading, dataset_from_bags
from fcnet_replay.evaluation import broken_thresholds, evaluate_bag
from fcnet_replay.metrics import mode_times, smoothness, spectrum, timing
from fcnet_replay.policy_replay import cold_and_comparable
from fcnet_replay.report.findings import findings
from fcnet_replay.report.page import page
from fcnet_replay.report.signals import Signals


def test_a_walk_without_faults_has_the_figures_of_its_making(evaluate) -> None:
    """Cycles are at multiples of 20 ms, the newest state 4 ms before, targets 2 ms after."""
    figures = evaluate().figures
    error, timing = figures["policies"]["A"]["action_error_rad"], figures["timing"]
    assert error["agrees"] and error["steps"] == 199 and error["max"] < 1e-5
    assert timing["topics"]["joint_states"]["rate_hz"] == pytest.approx(250.0, rel=1e-3)
    assert timing["state_to_target_s"]["p50"] == pytest.approx(0.006, abs=1e-5)
    assert figures["modes_s"] == {"walking": pytest.approx(4.0, abs=0.01)}  # until the end


def test_a_known_error_is_the_error_of_every_joint(evaluate) -> None:
    error = evaluate(error=0.01).figures["policies"]["A"]["action_error_rad"]
    assert not error["agrees"]
    for figures in (error, *error["joints"].values()):
        assert [figures[name] for name in ("rmse", "p50", "max")] == pytest.approx([0.01] * 3, abs=1e-5)


def test_gaps_and_late_messages_are_counted_and_measured(evaluate) -> None:
    topics = evaluate(gap=(1.0, 1.3)).figures["timing"]["topics"]
    assert [topics[name]["gaps"] for name in ("joint_states", "imu/data", "joint_trajectory")] == [1, 1, 0]
    assert topics["joint_states"]["largest_gap_s"] == pytest.approx(0.304, abs=1e-6)
    topics = evaluate(late=17).figures["timing"]["topics"]
    assert (topics["joint_states"]["late"], topics["joint_states"]["gaps"], topics["imu/data"]["late"]) == (17, 0, 0)
    assert topics["joint_states"]["out_of_order"] > 0
    assert topics["joint_states"]["delay_s"]["max"] == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize("lacking", ["joint_states", "imu/data", "odom"])
def test_what_a_bag_lacks_at_its_beginning_is_reported_in_seconds(evaluate, lacking) -> None:
    evaluation = evaluate(edit=without(-1.0, 1.7, lacking))
    delays = dict(evaluation.figures["timing"]["start_delay_s"])
    assert delays.pop(lacking) == pytest.approx(1.7, abs=0.05)
    assert max(delays.values()) < 0.1
    (found,) = (finding for finding in findings(evaluation) if finding.code == "late_start")
    assert found.level == "note" and lacking in found.sentence


def test_states_that_are_recorded_long_before_the_robot_moves_are_no_late_start(evaluate) -> None:
    def move_late(messages):
        mode = (1.7, *next(entry[1:] for entry in messages if entry[1] == "controller/mode"))
        states = ("joint_states", "imu/data", "odom")
        return [mode, *(entry for entry in messages if entry[1] in states or entry[0] >= 1.7)]

    assert "late_start" not in codes(evaluate(edit=move_late))


def test_tilt_and_torque_are_those_of_the_robot(evaluate) -> None:
    evaluation = evaluate(roll=1.2, effort=10.0)
    motion = evaluation.figures["motion"]
    assert motion["tilt_rad"]["max"] == pytest.approx(1.2, abs=1e-6) and codes(evaluation)["tilt"] == "bad"
    assert motion["torque_of_limit"]["FR_calf_joint"]["max"] == pytest.approx(10.0 / 44.4)
    assert motion["share_of_time_at_torque_limit"] == 0.0


def test_tracking_is_how_much_too_slow_the_robot_is_and_unknown_without_odom(evaluate) -> None:
    tracking = evaluate(slow=0.2).figures["tracking"]
    assert tracking["yaw_rate_rad_s"]["rmse"] == pytest.approx(0.0, abs=1e-9)
    assert tracking["forward_m_s"]["mean"] == pytest.approx(-0.17, abs=0.02)  # commands rise for a third of a second
    unknown = evaluate(without=(ODOM,))
    assert unknown.figures["tracking"] is None and codes(unknown)["no_odom"] == "note"


def test_without_recorded_steps_they_are_inferred_and_without_targets_a_policy_is_replayed_by_itself(evaluate) -> None:
    """The made-up controller takes the newest state at each cycle too, so inferred steps differ little."""
    evaluation = evaluate(without=(STEPS,))
    error = evaluation.figures["policies"]["A"]["action_error_rad"]
    assert codes(evaluation)["inferred"] == "note"
    assert error["steps"] > 190 and error["p50"] < 0.1
    figures = evaluate(without=(STEPS, TARGETS)).figures["policies"]["A"]
    assert (figures["basis"], figures["action_error_rad"]["rmse"]) == ("alone", None)
    assert figures["smoothness"]["jerk_rms_rad_s3"] > 0


def test_the_memory_is_that_of_the_recorded_policy_after_its_cold_start_or_when_the_gap_has_left_it() -> None:
    made = [  # usable, cold and missing before it as recorded; starts cold, comparable
        (1, 0, 0, 1, 0),  # the recording begins in the middle of a walk
        (1, 0, 0, 0, 0),
        (1, 0, 0, 0, 0),
        (1, 0, 0, 0, 1),
        (1, 0, 1, 1, 0),
        (1, 1, 0, 1, 1),
        (1, 0, 0, 0, 1),
        (0, 0, 0, 0, 0),
        (1, 0, 0, 1, 0),
    ]
    usable, recorded_cold, missing, cold, comparable = np.array(made, dtype=bool).T
    np.testing.assert_array_equal(cold_and_comparable(usable, recorded_cold, missing, 3), [cold, comparable])
    assert cold_and_comparable(usable[:1], recorded_cold, missing, 0)[1].all()


def test_two_policies_are_compared_with_the_recording_and_each_other(evaluate, model, tmp_path) -> None:
    save_model(model, tmp_path / "a.safetensors")
    moved = model.scales | {"action_mean": model.scales["action_mean"] + np.float32(0.02)}
    save_model(replace(model, scales=moved), tmp_path / "b.safetensors")
    figures = evaluate([tmp_path / "a.safetensors", tmp_path / "b.safetensors"]).figures
    assert figures["policies"]["A"]["action_error_rad"]["agrees"]
    assert figures["policies"]["B"]["action_error_rad"]["rmse"] == pytest.approx(0.02, abs=5e-4)
    assert figures["differences"]["B-A"]["rmse"] == pytest.approx(0.02, abs=5e-4)


def test_smoothness_is_the_jerk_of_a_cubic_and_the_power_above_8_hz() -> None:
    time, warm = np.arange(1000) / 50.0, np.zeros(1000, dtype=bool)
    assert smoothness((time**3)[:, None] * np.ones(12), warm, 0.02)["jerk_rms_rad_s3"] == pytest.approx(6.0)
    slow = 0.3 * np.sin(2 * np.pi * 3.125 * time)[:, None] * np.ones(12)
    frequency, power = spectrum(slow, warm, 0.02)
    assert frequency[power[:, 0].argmax()] == pytest.approx(3.125)
    rough = slow + 0.3 * np.sin(2 * np.pi * 15.625 * time)[:, None]
    assert smoothness(slow, warm, 0.02)["high_frequency_share"] < 0.01
    assert smoothness(rough, warm, 0.02)["high_frequency_share"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.0])
def test_a_run_in_simulated_time_is_described_by_it_however_fast_it_passed(evaluate, robot, pace) -> None:
    run = evaluate().run
    first, parts = run.joints.stamp[0], {}
    for name in ("joints", "imu", "targets", "odometry", "steps"):
        part = getattr(run, name)
        stamps = {name: 1.0 + pace * (getattr(part, name) - first) for name in vars(part) if name.endswith("stamp")}
        parts[name] = replace(part, **stamps)
    slowed = replace(run, **parts)
    signals, lasted = Signals(slowed, robot), np.ptp(slowed.joints.stamp)
    shown = [signals.seconds, signals.joint_time[-1], max(span.max() for span in signals.mode_spans().values())]
    assert shown == pytest.approx([lasted] * 3, abs=0.03) and signals.joint_time[0] == pytest.approx(0.0, abs=0.03)
    assert sum(mode_times(slowed).values()) == pytest.approx(pace * sum(mode_times(run).values()), abs=0.05)
    for topic in timing(slowed)["topics"].values():
        assert topic["late"] is None, "two clocks do not tell how late a message was"
        assert topic["delay_s"] == UNKNOWN


# What a recording does not measure is unknown in figures, verdict, page and data, and a limit on it fails.

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
def test_no_orientation_is_an_unknown_tilt_everywhere(write_bag, evaluate, tmp_path, how, capsys) -> None:
    settings = {"seconds": 1.0, "edit": changed(IMU, NO_ORIENTATION[how])}
    bag, figures, report = write_bag(**settings), tmp_path / "r.json", tmp_path / "r.html"
    arguments = ["--robot", "aliengo", "--json", str(figures), "--report", str(report)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["replay", str(bag), *arguments, "--fail-above", "motion.tilt_rad.max=0.4"]) == 1
    said = capsys.readouterr()
    assert "not known" in said.err and "tilted by at most" not in said.out
    assert json.loads(figures.read_text())["motion"]["tilt_rad"] == UNKNOWN
    assert "Tilt, roll and pitch are not known" in report.read_text()
    found = codes(evaluate(**settings))
    assert (found["unknown"], found["tilt_unknown"], found["nothing_compared"]) == ("bad",) * 3
    with pytest.raises(FcnetError):
        dataset_from_bags([bag], tmp_path / "data", BagReading("aliengo"))


def test_a_part_without_orientation_is_left_out_of_data(write_bag, evaluate, tmp_path) -> None:
    settings = {"edit": changed(IMU, NO_ORIENTATION["zeros"], 2.0, stood_before)}
    evaluation = evaluate(**settings)
    tilt = evaluation.figures["motion"]["tilt_rad"]
    assert tilt["max"] == pytest.approx(0.1) and tilt["unknown_share"] == pytest.approx(0.5, abs=0.01)
    assert codes(evaluation)["tilt"] == "bad"
    data = dataset_from_bags([write_bag(**settings)], tmp_path / "data", BagReading("aliengo"))
    assert 80 < data.steps <= 101


def test_a_rate_that_is_not_measured_replays_nothing_and_gives_no_contacts(evaluate) -> None:
    evaluation = evaluate(seconds=1.0, edit=changed(IMU, unmeasured("angular_velocity")))
    assert evaluation.figures["policies"]["A"]["action_error_rad"]["max"] is None
    assert codes(evaluation)["nothing_compared"] == "bad"
    assert "The gait is not known: the run has no orientation or no angular velocity" in page(evaluation)


def test_states_alone_that_cannot_be_replayed_are_not_a_replay(evaluate) -> None:
    settings = {"without": (TARGETS, STEPS), "edit": changed(IMU, NO_ORIENTATION["zeros"])}
    assert codes(evaluate(**settings))["nothing_compared"] == "bad"


@pytest.mark.parametrize("efforts", [(0.0,), (NAN,), ()], ids=["zero", "not finite", "absent"])
def test_torques_that_are_not_measured_are_unknown(evaluate, efforts) -> None:
    evaluation = evaluate(seconds=1.0, edit=changed(JOINTS, with_effort(*efforts)))
    motion = evaluation.figures["motion"]
    assert motion["torque_of_limit"]["FR_hip_joint"] == UNKNOWN and motion["share_of_time_at_torque_limit"] is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "Torque is not known" in page(evaluation)


def test_odometry_without_orientation_is_none(evaluate) -> None:
    edit = changed(ODOM, lambda odom: turned(0.0, 0.0, 0.0, 0.0)(odom.pose.pose))
    odometry = evaluate(seconds=1.0, edit=edit).run.odometry
    assert not len(odometry.known("position", "orientation").stamp)
    assert len(odometry.known("position", "velocity").stamp) == 250


@pytest.mark.parametrize(
    ("settings", "metric"),
    [
        ({"without": (ODOM,)}, "tracking.forward_m_s.rmse"),
        ({"without": (MODE,)}, "modes_s.fault"),
        ({"without": (TARGETS, MODE)}, "timing.start_delay_s.odom"),
        ({"without": (MODE,)}, "timing.start_delay_s.joint_trajectory"),
        ({"without": (TARGETS,)}, "timing.topics.joint_trajectory.gaps"),
        ({"without": (TARGETS,)}, "motion.joint_tracking_error_rad"),
        ({"without": (TARGETS,)}, "motion.share_of_targets_at_position_limit"),
        ({"without": (STEPS,)}, "timing.state_to_target_s.max"),
        ({"edit": changed(JOINTS, with_effort(NAN), 0.7)}, "motion.torque_of_limit.FR_hip_joint.max"),
        ({"edit": changed(IMU, NO_ORIENTATION["zeros"], 0.5)}, "motion.tilt_rad.max"),
        ({"edit": without(0.5, 9.0, IMU)}, "motion.tilt_rad.max"),
        ({"edit": without(0.5, 9.0, ODOM)}, "tracking.forward_m_s.rmse"),
    ],
)
def test_a_limit_on_a_figure_that_is_unknown_also_of_a_part_fails(evaluate, settings, metric) -> None:
    (sentence,) = broken_thresholds(evaluate(seconds=1.0, **settings).figures, [(metric, 1e9)])
    assert ("of its values are unknown" if "edit" in settings else "is not known") in sentence


def test_without_stamps_nothing_is_late_or_in_time(evaluate) -> None:
    def unstamped(joints):
        joints.header.stamp.sec = joints.header.stamp.nanosec = 0

    figures = evaluate(seconds=1.0, edit=changed(JOINTS, unstamped)).figures["timing"]["topics"][JOINTS]
    assert (figures["late"], figures["delay_s"]) == (None, UNKNOWN)


def test_a_mode_that_a_recording_with_modes_lacks_lasted_no_time(evaluate) -> None:
    assert broken_thresholds(evaluate(seconds=1.0).figures, [("modes_s.fault", 0.0)]) == []


@pytest.mark.parametrize(
    ("topic", "change", "code"),
    [
        (JOINTS, lambda joints, time: setattr(joints, "velocity", np.zeros(12)), "nothing_compared"),
        (IMU, lambda imu, time: setattr(imu.angular_velocity, "x", np.sin(9 * time)), "tilt_unknown"),
        (ODOM, lambda odom, time: setattr(odom.pose.pose.position, "x", time), "no_odom"),
    ],
)
def test_what_never_changes_though_the_robot_moves_is_unknown(evaluate, topic, change, code) -> None:
    def edit(messages):
        for time, name, message in messages:
            if name == topic:
                change(message, time)
        return messages

    found = codes(evaluate(seconds=1.0, edit=edit))
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
        dataset_from_bags([bag], tmp_path / "data", BagReading("aliengo"))


@pytest.mark.parametrize(
    ("topic", "change"),
    [(JOINTS, lambda joints: setattr(joints, "position", np.zeros(12))), (IMU, turned(0.8, 0.0, 0.0, 0.6))],
)
def test_states_of_two_programs_become_no_data_and_the_report_says_the_same(write_bag, tmp_path, topic, change) -> None:
    def edit(messages):
        others = [(time + 0.001, name, deepcopy(message)) for time, name, message in messages if name == topic]
        for _, _, message in others:
            change(message)
            message.header.stamp.nanosec -= 2_000_000 * (message.header.stamp.nanosec > 2_000_000)
        return stood_before(messages + others)

    bag = write_bag(seconds=1.0, edit=edit)
    with pytest.raises(FcnetError, match="two programs") as refused:
        dataset_from_bags([bag], tmp_path / "data", BagReading("aliengo"), print)
    found = findings(evaluation := evaluate_bag(bag, robot_name="aliengo"))
    (mixed,) = (finding for finding in found if finding.code == "mixed")
    assert mixed.level == "bad" and mixed.sentence[:-1] in str(refused.value) and topic in mixed.sentence
    assert "out_of_order" not in {finding.code for finding in found}
    assert np.isfinite(evaluation.run.joints.velocity).all(), "of which program is unknown, but they were measured"
