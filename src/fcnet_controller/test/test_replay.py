"""A bag for a replay through ROS: its topics and robot, the policy's steps over it, and the result in numbers."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from made_bag import MadeBag
from ros_harness import ros_arguments
from rosbags.rosbag2 import StoragePlugin

from fcnet_controller.replay.bag import namespace_in, read_replay_bag, renamed_topics
from fcnet_controller.replay.node import ReplayResult, replay_run
from fcnet_core.errors import ReplayError
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.metrics import AGREEMENT
from fcnet_replay.policy_replay import walk_over_states
from fcnet_ros.topics import CLOCK

STEPS, STATES = "controller/policy_step", "joint_states"


@pytest.fixture
def bag(robot, model, tmp_path):
    """Make a bag with settings of a MadeBag; return it as a replay reads it."""

    def make(**settings):
        folder = tmp_path / f"bag{len(list(tmp_path.iterdir()))}"
        return read_replay_bag(str(MadeBag(model, robot, **({"seconds": 0.6} | settings)).write(folder)))

    return make


@pytest.mark.parametrize("error", [0.0, 0.01])
def test_only_the_recorded_policy_must_give_the_same_targets_again(bag, robot, model, error):
    replay = replay_run(bag(error=error).run, model, robot)
    for same_policy in (True, False):
        result = ReplayResult.of(replay, same_policy)
        assert (result.steps, result.lost, result.restarts, result.compared) == (len(replay.time), 0, 0, result.steps)
        assert (result.largest_difference < AGREEMENT) == (error == 0.0)
        assert result.passed == (error == 0.0 or not same_policy)


def test_steps_that_the_bag_lacks_are_counted_and_the_next_starts_cold(bag, robot, model):
    def without_a_step(messages):
        steps = [entry for entry in messages if entry[1] == STEPS]
        return [entry for entry in messages if entry is not steps[9]]

    def without_states(messages):
        return [entry for entry in messages if entry[1] != STATES or not 0.2 <= entry[0] < 0.24]

    result = ReplayResult.of(replay_run(bag(edit=without_a_step).run, model, robot), same_policy=True)
    assert (result.lost, result.restarts, result.compared) == (0, 1, 9)
    result = ReplayResult.of(replay_run(bag(edit=without_states).run, model, robot), same_policy=True)
    assert (result.lost > 0, result.restarts) == (True, 1)


def test_without_recorded_steps_a_policy_walks_over_the_states_and_nothing_is_compared(bag, robot, model):
    run = bag(without=(STEPS,)).run
    replay = replay_run(run, model, robot)
    offline = walk_over_states(run.without_targets(), model, robot)
    np.testing.assert_array_equal(replay.action, offline.action)
    result = ReplayResult.of(replay, same_policy=True)
    assert (replay.basis, result.compared, result.passed) == ("alone", 0, True)
    assert not replace(result, steps=0).passed


def test_messages_are_played_in_the_order_of_their_reception_under_names_that_move_no_robot(bag):
    made = bag(late=20)
    played = list(made.messages())
    assert [received for received, _, _ in played] == sorted(received for received, _, _ in played)
    names = frozenset(made.name(topic) for topic in made.types)
    assert len(played) == sum(batch.received.size for batch in open_bag(made.path).batches(names))
    unchanged = ("joint_states", "imu/data", "odom", "controller/mode")
    moved = ("joint_trajectory", "controller/policy_step", "cmd_vel")
    assert set(made.types) == {*unchanged, *moved}
    assert {name: renamed_topics()[name] for name in moved} == {name: f"recorded/{name}" for name in moved}
    assert not renamed_topics().keys() & {*unchanged}


@pytest.mark.parametrize("topic", ["joint_states", "imu/data"])
def test_a_bag_without_states_is_refused(bag, topic):
    with pytest.raises(ReplayError, match=topic):
        bag(without=(topic,))


def test_a_bag_with_messages_of_a_type_that_is_not_installed_is_refused(robot, model, tmp_path):
    bag = MadeBag(model, robot, seconds=0.6, storage=StoragePlugin.SQLITE3).write(tmp_path / "bag")
    with closing(sqlite3.connect(next(bag.glob("*.db3")))) as file, file:
        file.execute("UPDATE topics SET type = 'my_msgs/msg/Odometry' WHERE name = '/odom'")
    with pytest.raises(ReplayError, match="my_msgs/msg/Odometry"):
        read_replay_bag(str(bag))


def test_a_replay_beside_another_clock_is_refused(run, make_node, robot, model, model_path, tmp_path):
    CLOCK.publisher(make_node("simulator"))
    bag = MadeBag(model, robot, seconds=0.6).write(tmp_path / "bag")
    given = ros_arguments(bag=bag, policy=model_path, robot="aliengo")
    program = run(["ros2", "run", "fcnet_controller", "replay", *given])
    assert program.wait() not in (0, None)
    assert "simulator publishes /clock" in program.output


def test_the_namespace_of_a_bag_is_that_of_its_only_robot(robot, model, tmp_path):
    bag = MadeBag(model, robot, seconds=0.6, namespace="/left/dog").write(tmp_path / "bag")
    assert namespace_in(open_bag(bag)) == "left/dog"
    assert namespace_in(open_bag(bag), "/cat/") == "cat"


def test_a_bag_in_which_the_clock_was_set_is_played_without_a_pause(bag):
    def set_ahead(messages):
        return [(received + 3600.0 * (received > 0.3), *entry) for received, *entry in messages]

    times = [received for received, _, _ in bag(edit=set_ahead).messages()]
    assert times == sorted(times) and times[-1] - times[0] == pytest.approx(0.6, abs=0.05)
