"""Steps and setpoints of a bag: inferred, missing, and decided between sources as by the controller."""

import json
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from made_bag import EPOCH, STEPS, codes, pose, stood_before, text, twist, without

from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.policy_replay import extract_steps, missing_before
from fcnet_replay.read_run import read_run
from fcnet_replay.run import NO_STEPS, StepRecord

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
    for place in [place for place, entry in enumerate(messages) if entry[1] == "joint_trajectory"][3::4]:
        received, topic, message = messages[place]
        message.header.stamp.nanosec += round(LATE * 1e9)
        messages[place] = received + LATE, topic, message
    return messages


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


@pytest.mark.parametrize(
    ("edit", "stamps"),
    [
        (lambda messages: messages, ("target_stamp", "previous_stamp")),
        (late_and_caught_up, ()),
        (held_four_times, ("target_stamp",)),
    ],
    ids=["each", "however late", "every fourth"],
)
def test_targets_of_the_policy_are_its_steps(infer, edit, stamps) -> None:
    recorded, inferred = infer(edit=lambda messages: edit(stood_before(messages)))
    assert len(inferred) == 199 and inferred.phase_known.all()
    for name in ("cold", "setpoint", "phase", "walking"):
        np.testing.assert_allclose(getattr(inferred.record, name), getattr(recorded, name), atol=1e-9)
    for name in stamps:
        np.testing.assert_allclose(getattr(inferred.record, name), getattr(recorded, name), rtol=0, atol=1e-6)


def test_the_walk_ends_where_a_controller_that_is_stopped_damps(infer) -> None:
    def stopped(messages):
        for received, topic, message in messages:
            if topic == "joint_trajectory" and received > 3.0:
                message.points[0].positions = np.empty(0)
        return stood_before(messages)

    recorded, inferred = infer(edit=stopped)
    assert len(inferred.record.cold) == (recorded.target_stamp - recorded.target_stamp[0] < 2.97).sum()


def without_targets(begin, end):
    return lambda messages: without(begin, end, "joint_trajectory")(stood_before(messages))


@pytest.mark.parametrize(
    ("edit", "unknown"),
    [
        (stood_before, 0),
        (lambda messages: messages, 200),
        (lambda messages: [entry for entry in messages if entry[1] != "controller/mode"], 200),
        (without_targets(1.0, 2.0), 100),
        (without_targets(0.0, 1.0), 150),
    ],
    ids=["whole", "it walked when the bag began", "no modes", "a second without targets", "no targets when it began"],
)
def test_steps_of_unknown_phase_are_reported(evaluate, edit, unknown) -> None:
    evaluation = evaluate(edit=edit, without=(STEPS,))
    assert evaluation.figures["policies"]["A"]["steps_of_unknown_phase"] == unknown
    found = codes(evaluation)
    assert "inferred" in found and ("unknown_phase" in found) == (unknown > 0)


def test_steps_without_a_state_from_shortly_before_are_not_replayed(evaluate) -> None:
    figures = evaluate(edit=stood_before, gap=(1.0, 1.5), without=(STEPS,)).figures["policies"]["A"]
    assert figures["action_error_rad"]["lost_steps"] == pytest.approx(20, abs=1)  # of 25, in five a state is fresh
    assert figures["cold_starts"] == 2


MEMORY = 4 * 63  # steps that the shipped policy remembers: of 64 inputs the newest and 63 more, in each of four layers


@pytest.mark.parametrize(
    ("topics", "begin", "end", "lost", "missing", "steps"),
    [
        ([STEPS], 1.0, 1.1, 0, 5, 399 - 5 - MEMORY),
        (["imu/data"], 1.0, 1.02, 1, 0, 399 - 1 - MEMORY),
        ([STEPS, "joint_trajectory"], 0.0, 1.0, 1, 0, 399 - 50 - MEMORY),
    ],
    ids=["steps, though states and targets are there", "a state", "the beginning of the walk"],
)
def test_after_a_gap_nothing_is_compared_until_the_memory_is_the_same(
    evaluate, topics, begin, end, lost, missing, steps
) -> None:
    evaluation = evaluate(edit=without(begin, end, *topics), seconds=8.0, rate=100.0)
    error = evaluation.figures["policies"]["A"]["action_error_rad"]
    assert (error["lost_steps"], error["missing_steps"], error["uncompared_steps"]) == (lost, missing, MEMORY)
    assert error["steps"] == steps and error["agrees"] and error["max"] < 1e-5
    assert "uncompared_steps" in codes(evaluation) and ("missing_steps" in codes(evaluation)) == bool(missing)


def test_where_nothing_can_be_compared_the_report_says_so(evaluate) -> None:
    assert "nothing_compared" in codes(evaluate(edit=without(0.0, 1.0, STEPS)))


@pytest.mark.parametrize(
    ("period", "cold", "target", "previous", "missing"),
    [
        ([0, 1, 2.8, 4.8, 5.8], [1, 0, 0, 0, 0], [3, 7, 11, 19, 23], [2, 6, 10, 18, 22], [0, 0, 0, 1, 0]),
        ([0, 1, 2, 3, 4], [1, 0, 0, 0, 0], [3, 7, 11, 14, 18], [2, 6, 10, 13, 17], [0, 0, 0, 0, 0]),
        ([0, 1, 2, 9, 10], [1, 0, 0, 0, 0], [3, 7, 11, 14, 18], [2, 6, 10, 13, 17], [0, 0, 0, 1, 0]),
        ([0, 1, 2, 40, 41], [1, 0, 0, 1, 0], [3, -1, 5, 40, 41], [2, 3, 4, 39, 40], [0, 0, 0, 0, 0]),
        ([0, 1, 2, 0, 1], [1, 0, 0, 0, 0], [1, 2, 3, 1, 2], [0, 1, 2, 0, 1], [0, 0, 0, 1, 0]),
    ],
    ids=["a late step before a missing one", "a missing target", "time for a step", "cold, unknown", "sent again"],
)
def test_missing_steps_are_counted_by_targets_if_there_was_time(period, cold, target, previous, missing) -> None:
    time = 0.02 * np.array(period)
    steps = StepRecord(time, time, time, time, np.array(cold, dtype=bool), np.zeros((len(time), 9)), time, time)
    np.testing.assert_array_equal(missing_before(steps, np.array(target), np.array(previous)), missing)


FORWARD, HEIGHT, CLEARANCE = (SETPOINT_FIELDS.index(field) for field in ("vx", "height", "clearance"))
PLANNER = 0.5  # [m/s] on cmd_vel, twenty times a second, for four seconds


KEYBOARD = (1.0, "keyboard/cmd_vel", twist(-0.2))
TIMEOUT = {"fcnet.parameters": json.dumps({"cmd_vel_timeout": 2.0})}
STYLE = {"fcnet.parameters": json.dumps({"foot_clearance": 0.02, "stance_width": "wide"})}
POSED = [(0.5, "cmd_pose", pose(-0.05)), KEYBOARD, (1.1, "cmd_pose", pose(-0.1))]
FAULT = [(time, "controller/mode", text(mode)) for time, mode in ((1.0, "fault"), (2.0, "passive"))]
ODD = [(1.0, "keyboard/cmd_vel", twist(np.nan)), (1.0, "cmd_pose", pose(np.inf))]


@pytest.mark.parametrize(
    ("field", "commands", "custom", "expected"),
    [
        (FORWARD, [], {}, {-0.1: 0.0, 0.1: PLANNER, 4.4: PLANNER, 4.5: 0.0}),
        (FORWARD, [KEYBOARD, (1.3, *KEYBOARD[1:])], {}, {0.99: PLANNER, 1.01: -0.2, 1.79: -0.2, 1.81: PLANNER}),
        (FORWARD, [KEYBOARD], TIMEOUT, {2.9: -0.2, 3.1: PLANNER}),
        (HEIGHT, POSED, {}, {0.4: 0.0, 0.6: -0.05, 3.0: -0.05}),
        (HEIGHT, [POSED[0], *FAULT], {}, {1.9: -0.05, 2.1: 0.0}),
        (CLEARANCE, [], STYLE, {1.0: 0.02}),
        (FORWARD, ODD, {}, {1.1: 0.0}),
        (HEIGHT, ODD, {}, {1.1: 0.0}),
    ],
    ids=[
        "zero before the first command and after the last is stale", "the more important source, until it is stale",
        "the controller's own timeout", "a pose stays, and is lost while another source is in control",
        "commands from before a fault are forgotten", "the style is a parameter", "an impossible velocity",
        "an impossible pose",
    ],
)  # fmt: skip
def test_setpoints_are_those_of_the_controller(write_bag, field, commands, custom, expected) -> None:
    run = read_run(open_bag(write_bag(rate=20.0, edit=lambda messages: [*messages, *commands], custom=custom)))
    assert run.setpoints.at(EPOCH + np.array(list(expected)))[:, field].tolist() == list(expected.values())
