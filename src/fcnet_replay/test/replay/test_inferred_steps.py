"""Of a bag that does not hold the policy's steps they are inferred as the controller took them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from made_bag import health, stood_before

from fcnet_replay.bags.bag import open_bag
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.report.findings import findings
from fcnet_replay.run import NO_STEPS
from fcnet_replay.steps import extract_steps

WITHOUT_STEPS = {"without": ("controller/policy_step",), "custom": {"fcnet.robot": "aliengo"}}
LATE = 0.015  # [s]


@pytest.fixture
def infer(write_bag, model):
    """Recorded steps of a bag, and what is inferred where they are not recorded."""

    def infer(**settings):
        run = read_run(open_bag(write_bag(**settings)))
        silent = replace(run, steps=NO_STEPS)
        return run.steps, extract_steps(silent, model.command_shaper())

    return infer


def late_and_caught_up(messages):
    """Every fourth target is received and stamped LATE, the next one is on time again."""
    targets = 0
    for place, (received, topic, message) in enumerate(messages):
        if topic == "joint_trajectory":
            targets += 1
            if targets % 4 == 0:
                message.header.stamp.nanosec += round(LATE * 1e9)
                messages[place] = received + LATE, topic, message
    return messages


def test_every_target_is_a_step_however_late_it_was(infer) -> None:
    recorded, inferred = infer(edit=lambda messages: late_and_caught_up(stood_before(messages)))
    np.testing.assert_allclose(inferred.record.command, recorded.command, atol=1e-9)
    assert inferred.phase_known.all()


def test_at_the_beginning_of_a_walk_the_policy_saw_the_target_before_it_as_sent_last(infer) -> None:
    recorded, inferred = infer(edit=stood_before)
    np.testing.assert_allclose(inferred.record.target_stamp, recorded.target_stamp, rtol=0, atol=1e-6)
    np.testing.assert_allclose(inferred.record.previous_stamp, recorded.previous_stamp, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(inferred.record.cold, recorded.cold)


def held_four_times(messages):
    """Every target of the policy is sent again three times, as by a controller of 200 Hz."""
    held = []
    for received, topic, message in messages:
        if topic == "joint_trajectory" and received > 0.02:
            for again in (1, 2, 3):
                later = deepcopy(message)
                later.header.stamp.nanosec += again * 5_000_000
                held.append((received + again * 0.005, topic, later))
    return [*messages, *held]


def test_of_a_faster_controllers_targets_every_nth_is_a_step_though_the_bag_lacks_some(infer) -> None:
    def edit(messages):
        messages = sorted(held_four_times(stood_before(messages)), key=lambda entry: entry[0])
        lacking = [place for place, entry in enumerate(messages) if entry[1] == "joint_trajectory"][11::31]
        return [entry for place, entry in enumerate(messages) if place not in lacking]

    recorded, inferred = infer(edit=edit)
    assert len(inferred.record.cold) == 199 and inferred.phase_known.all()
    np.testing.assert_allclose(inferred.record.command, recorded.command, atol=1e-9)
    shift = inferred.record.target_stamp - recorded.target_stamp  # where the first of four is lacking, it is the second
    assert set(np.round(shift, 3)) == {0.0, 0.005}
    assert (shift < 0.004).mean() > 0.95


def test_the_walk_ends_where_a_controller_that_is_stopped_damps(infer) -> None:
    def stopped(messages):
        for received, topic, message in messages:
            if topic == "joint_trajectory" and received > 3.0:
                message.points[0].positions = np.empty(0)
        return stood_before(messages)

    recorded, inferred = infer(edit=stopped)
    assert len(inferred.record.cold) == (recorded.target_stamp - recorded.target_stamp[0] < 2.97).sum()


def as_it_is(messages):
    return messages


def without_modes(messages):
    return [entry for entry in messages if entry[1] != "controller/mode"]


def without_targets(begin, end):
    def edit(messages):
        messages = stood_before(messages)
        return [entry for entry in messages if entry[1] != "joint_trajectory" or not begin <= entry[0] < end]

    return edit


@pytest.mark.parametrize(
    ("edit", "unknown"),
    [(as_it_is, 200), (without_modes, 200), (without_targets(1.0, 2.0), 100), (without_targets(0.0, 1.0), 150)],
    ids=["it walked when the bag began", "no modes", "a second without targets", "no targets when it began"],
)
def test_steps_of_unknown_phase_are_reported(write_bag, edit, unknown) -> None:
    evaluation = evaluate_bag(write_bag(edit=edit, **WITHOUT_STEPS))
    assert evaluation.figures["policies"]["A"]["steps_of_unknown_phase"] == unknown
    assert "unknown_phase" in [finding.code for finding in findings(evaluation)]


@pytest.mark.parametrize(("lacking", "unknown"), [(0, 0), (5, 150), (None, 150)])
def test_cycles_that_the_controller_counted_as_missed_leave_the_phase_known(write_bag, lacking, unknown) -> None:
    """From 1 s on targets are 0.1 s late for good; `lacking`: how many more than there are the controller counted."""

    def edit(messages):
        moved = [
            (time + 0.1 * (topic == "joint_trajectory" and time > 1.0), topic, message)
            for time, topic, message in stood_before(messages)
        ]
        sent = sorted(time for time, topic, _ in moved if topic == "joint_trajectory")
        times = [0.015, 0.995, 1.995, 2.995, 3.995, 4.2] if lacking is not None else []
        counts = [700 + sum(at < time for at in sent) + (lacking if time > 1.5 else 0) for time in times]
        found = [(time, "diagnostics", health(count)) for time, count in zip(times, counts, strict=True)]
        another = [(time, "diagnostics", health(round(10 * time), "dog/")) for time in times]
        return [*moved, *found, *another]

    evaluation = evaluate_bag(write_bag(edit=edit, **WITHOUT_STEPS))
    assert evaluation.figures["policies"]["A"]["steps_of_unknown_phase"] == unknown


def test_with_a_known_phase_no_step_of_unknown_phase_is_reported(write_bag) -> None:
    evaluation = evaluate_bag(write_bag(edit=stood_before, **WITHOUT_STEPS))
    assert evaluation.figures["policies"]["A"]["steps_of_unknown_phase"] == 0
    codes = [finding.code for finding in findings(evaluation)]
    assert "inferred" in codes and "unknown_phase" not in codes


def test_steps_without_a_state_from_shortly_before_are_not_replayed(write_bag) -> None:
    evaluation = evaluate_bag(write_bag(edit=stood_before, gap=(1.0, 1.5), **WITHOUT_STEPS))
    figures = evaluation.figures["policies"]["A"]
    assert figures["action_error_rad"]["lost_steps"] == pytest.approx(20, abs=1)  # of 25, in five a state is fresh
    assert figures["cold_starts"] == 2
