"""The figures of bags with faults of known size are that size."""

from dataclasses import replace

import numpy as np
import pytest
from made_bag import codes, without

from fcnet_core.errors import ReplayError
from fcnet_core.model_file import save_model
from fcnet_core.names import Mode
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.metrics import body_motion, mode_times, smoothness, spectrum, timing, tracking_error
from fcnet_replay.policy_replay import cold_and_comparable
from fcnet_replay.report.findings import findings
from fcnet_replay.report.signals import Signals
from fcnet_replay.run import ModeRecord


@pytest.fixture
def evaluate(write_bag):
    def evaluate(policies=(), **settings):
        return evaluate_bag(write_bag(**settings), policies, robot_name="aliengo")

    return evaluate


ODOM = {"without": ("odom",)}


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


def test_tilt_and_torque_are_those_of_the_robot_or_not_known(evaluate, robot) -> None:
    evaluation = evaluate(roll=0.3, effort=10.0)
    motion, run = evaluation.figures["motion"], evaluation.run
    assert motion["tilt_rad"]["max"] == pytest.approx(0.3, abs=1e-6)
    assert motion["torque_of_limit"]["FR_calf_joint"]["max"] == pytest.approx(10.0 / 44.4)
    assert motion["share_of_time_at_torque_limit"] == 0.0
    unknown = replace(run, joints=replace(run.joints, effort=np.full_like(run.joints.effort, np.nan)))
    assert body_motion(unknown, robot)["share_of_time_at_torque_limit"] is None


@pytest.mark.parametrize(("settings", "code", "level"), [({"roll": 1.2}, "tilt", "bad"), (ODOM, "no_odom", "note")])
def test_the_verdict_has_a_code_and_a_level(evaluate, settings, code, level) -> None:
    assert codes(evaluate(**settings))[code] == level


def test_tracking_is_how_much_too_slow_the_robot_is_and_unknown_without_odom(evaluate) -> None:
    tracking = evaluate(slow=0.2).figures["tracking"]
    assert tracking["yaw_rate_rad_s"]["rmse"] == pytest.approx(0.0, abs=1e-9)
    assert tracking["forward_m_s"]["mean"] == pytest.approx(-0.17, abs=0.02)  # commands rise for a third of a second
    assert evaluate(**ODOM).figures["tracking"] is None


def test_without_recorded_steps_they_are_inferred_and_without_targets_a_policy_is_replayed_by_itself(evaluate) -> None:
    """The made-up controller takes the newest state at each cycle too, so inferred steps differ little."""
    evaluation = evaluate(without=("controller/policy_step",))
    error = evaluation.figures["policies"]["A"]["action_error_rad"]
    assert codes(evaluation)["inferred"] == "note"
    assert error["steps"] > 190 and error["p50"] < 0.1
    figures = evaluate(without=("controller/policy_step", "joint_trajectory")).figures["policies"]["A"]
    assert (figures["basis"], figures["action_error_rad"]["rmse"]) == ("alone", None)
    assert figures["smoothness"]["jerk_rms_rad_s3"] > 0


def test_records_that_are_out_of_order_are_read_by_their_times(evaluate, robot) -> None:
    run = evaluate().run
    modes = ModeRecord(run.joints.received[[0, 500, 800]], (Mode.STANDING, Mode.WALKING, Mode.FAULT))
    run = replace(run, mode=modes)
    order = np.random.default_rng(0).permutation(len(run.targets.stamp))
    targets = type(run.targets)(*(values[order] for values in vars(run.targets).values()))
    shuffled = replace(run, targets=targets, mode=ModeRecord(modes.received[::-1], modes.modes[::-1]))
    np.testing.assert_array_equal(tracking_error(shuffled), tracking_error(run))
    walking = Signals(shuffled, robot).walking
    np.testing.assert_array_equal(walking, Signals(run, robot).walking)
    assert walking.sum() == 300


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


def test_robot_and_policy_are_those_noted_in_the_bag(write_bag, model) -> None:
    noted = {"fcnet.robot": "aliengo", "fcnet.model_fingerprint": model.fingerprint, "fcnet.git_revision": "abc123"}
    evaluation = evaluate_bag(write_bag(custom=noted))
    assert evaluation.robot.name == "aliengo"
    assert evaluation.figures["policies"]["A"]["is_the_recorded_one"]
    assert evaluation.figures["recorded_with"]["git_revision"] == "abc123"
    with pytest.raises(ReplayError, match="--robot aliengo"):
        evaluate_bag(write_bag())


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
    first = run.joints.stamp.min()

    def simulated(part):
        stamps = {name: 1.0 + pace * (getattr(part, name) - first) for name in vars(part) if name.endswith("stamp")}
        return replace(part, **stamps)

    parts = {name: simulated(getattr(run, name)) for name in ("joints", "imu", "targets", "odometry", "steps")}
    slowed = replace(run, **parts)
    lasted = np.ptp(slowed.joints.stamp)
    signals = Signals(slowed, robot)
    assert signals.seconds == pytest.approx(lasted, abs=0.03)
    assert signals.joint_time.min() == pytest.approx(0.0, abs=0.03)
    assert signals.joint_time.max() == pytest.approx(lasted, abs=0.03)
    spans = signals.mode_spans()
    assert max(span.max() for span in spans.values()) == pytest.approx(lasted, abs=0.03)
    assert sum(mode_times(slowed).values()) == pytest.approx(pace * sum(mode_times(run).values()), abs=0.05)
    for topic in timing(slowed)["topics"].values():
        assert topic["late"] is None, "two clocks do not tell how late a message was"
        assert topic["delay_s"] == dict.fromkeys(("p50", "p95", "p99", "max"))
