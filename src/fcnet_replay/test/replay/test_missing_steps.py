"""Where a bag lacks steps, the policy starts cold, and is compared only where its memory is the recorded one's."""

from __future__ import annotations

import numpy as np
import pytest

from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.report.findings import findings
from fcnet_replay.run import StepRecord
from fcnet_replay.steps import missing_before

MEMORY = 4 * 63  # steps that the shipped policy remembers: of 64 inputs the newest and 63 more, in each of four layers
ROBOT = {"custom": {"fcnet.robot": "aliengo"}}


@pytest.fixture
def evaluate(write_bag):
    """Figures and codes of findings for a walk of 399 steps that lacks the messages of some topics for a time [s]."""

    def evaluate(topics, begin, end):
        def edit(messages):
            return [entry for entry in messages if entry[1] not in topics or not begin <= entry[0] < end]

        evaluation = evaluate_bag(write_bag(edit=edit, seconds=8.0, **ROBOT))
        return evaluation.figures["policies"]["A"], {finding.code for finding in findings(evaluation)}

    return evaluate


def test_steps_that_the_bag_does_not_hold_are_noticed_though_states_and_targets_are_there(evaluate) -> None:
    figures, found = evaluate(["controller/policy_step"], 1.0, 1.1)
    error = figures["action_error_rad"]
    assert (error["missing_steps"], figures["cold_starts"]) == (5, 2)
    assert {"missing_steps", "uncompared_steps"} <= found


def test_what_is_compared_is_the_recorded_policys_to_the_last_digit(evaluate) -> None:
    error = evaluate(["controller/policy_step"], 1.0, 1.1)[0]["action_error_rad"]
    assert (error["steps"], error["uncompared_steps"]) == (399 - 5 - MEMORY, MEMORY)
    assert error["agrees"] and error["max"] < 1e-5


def test_after_a_step_that_is_lost_nothing_is_compared_until_the_memory_is_the_same(evaluate) -> None:
    error = evaluate(["imu/data"], 1.0, 1.02)[0]["action_error_rad"]
    assert error["lost_steps"] == 1
    assert (error["uncompared_steps"], error["agrees"]) == (MEMORY, True)


def test_a_bag_that_begins_in_the_middle_of_a_walk_is_compared_once_the_memory_is_the_same(evaluate) -> None:
    error = evaluate(["controller/policy_step", "joint_trajectory"], 0.0, 1.0)[0]["action_error_rad"]
    assert (error["lost_steps"], error["missing_steps"], error["uncompared_steps"]) == (1, 0, MEMORY)
    assert error["agrees"] and error["steps"] == 399 - 50 - MEMORY


def test_where_nothing_can_be_compared_the_report_says_so(write_bag) -> None:
    def cut(messages):
        return [entry for entry in messages if entry[1] != "controller/policy_step" or entry[0] >= 1.0]

    evaluation = evaluate_bag(write_bag(edit=cut, **ROBOT))
    assert not evaluation.figures["policies"]["A"]["action_error_rad"]["agrees"]
    assert "nothing_compared" in [finding.code for finding in findings(evaluation)]


def steps_at(period, cold):
    """Steps that were taken at these multiples of 20 ms."""
    time = 0.02 * np.array(period)
    return StepRecord(time, time, time, time, np.array(cold, dtype=bool), np.zeros((len(time), 16)))


def test_targets_are_counted_in_control_cycles() -> None:
    steps = steps_at([0, 1, 2.8, 4.8, 5.8], [1, 0, 0, 0, 0])  # the third was late, before the fourth one is missing
    target, previous = np.array([3, 7, 11, 19, 23]), np.array([2, 6, 10, 18, 22])
    np.testing.assert_array_equal(missing_before(steps, target, previous), [0, 0, 0, 1, 0])


def test_a_target_that_the_bag_lacks_is_no_step_unless_there_was_time_for_one() -> None:
    target, previous = np.array([3, 7, 11, 14, 18]), np.array([2, 6, 10, 13, 17])
    usual, slow = steps_at([0, 1, 2, 3, 4], [1, 0, 0, 0, 0]), steps_at([0, 1, 2, 9, 10], [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(missing_before(usual, target, previous), 0)
    np.testing.assert_array_equal(missing_before(slow, target, previous), [0, 0, 0, 1, 0])


def test_what_is_not_in_the_recording_and_what_begins_anew_follows_nothing() -> None:
    steps = steps_at([0, 1, 2, 40, 41], [1, 0, 0, 1, 0])
    target, previous = np.array([3, -1, 5, 40, 41]), np.array([2, 3, 4, 39, 40])
    np.testing.assert_array_equal(missing_before(steps, target, previous), 0)


def test_a_step_that_is_published_again_follows_none() -> None:
    steps = steps_at([0, 1, 2, 0, 1], [1, 0, 0, 0, 0])
    target, previous = np.array([1, 2, 3, 1, 2]), np.array([0, 1, 2, 0, 1])
    np.testing.assert_array_equal(missing_before(steps, target, previous) > 0, [0, 0, 0, 1, 0])
