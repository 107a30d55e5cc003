"""Recorded steps are taken again exactly, and a bag without them is walked over as it is offline."""

from __future__ import annotations

import copy
import math
import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest
from geometry_msgs.msg import Twist
from made_bag import MadeBag
from rclpy.serialization import serialize_message
from rclpy.time import Time
from ros_harness import ros_arguments
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_controller.replay.bag import namespace_in, read_replay_bag
from fcnet_controller.replay.core import RecordingController, StepReplay
from fcnet_core.control.controller import STATE_TIMEOUT
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import FcnetError, ReplayError
from fcnet_core.names import Mode
from fcnet_core.observation import PolicyStep, assemble_observation
from fcnet_core.policy import load_policy
from fcnet_core.robot import JOINT_NAMES
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.policy_replay import walk_over_states
from fcnet_ros.serialized import seconds
from fcnet_ros.state_messages import StateBuffer

RATE = 50.0
START = 1_795_248_733_266_570_334  # [ns]
PERIOD = 20_000_000  # [ns]
COUNT = 100
COLD_AGAIN = 30  # a step at which the recorded policy began once more
KINDS = {
    "joint_states": JointState,
    "imu/data": Imu,
    "joint_trajectory": JointTrajectory,
    "controller/policy_step": Float64MultiArray,
    "cmd_vel": Twist,
}


class Walk:
    """A run of a policy; messages: by topic those of every step."""

    def __init__(self, robot, model) -> None:
        rng, policy = np.random.default_rng(3), load_policy(model)
        limiter = JointLimiter(robot, 1.0 / RATE)
        limiter.start(robot.stand_pose)
        self.messages = {topic: [] for topic in ("joint_states", "imu/data", "joint_trajectory")}
        self.before = self._trajectory(-1, robot.stand_pose)
        self.steps, self.sent, newest = [], [], self.before
        for step in range(COUNT):
            if cold := step in (0, COLD_AGAIN):
                policy.reset()
            position, velocity = robot.stand_pose + rng.normal(0, 0.05, 12), rng.normal(0, 1, 12)
            orientation, turn, command = np.array([0.0, 0.0, 0.0, 1.0]), rng.normal(0, 0.1, 3), rng.normal(0, 0.1, 16)
            observation = assemble_observation(orientation, turn, position, velocity, limiter.last, command)
            self.sent.append(limiter.limit(policy.step(observation).astype(np.float64)))
            joints = JointState(name=list(JOINT_NAMES), position=list(position), velocity=list(velocity))
            imu = Imu()
            imu.orientation.w = 1.0
            imu.angular_velocity.x, imu.angular_velocity.y, imu.angular_velocity.z = turn.tolist()
            joints.header.stamp, imu.header.stamp = stamp(step, -3_000_000), stamp(step, -4_000_000)
            previous, newest = newest, self._trajectory(step, self.sent[-1])
            for topic, message in zip(self.messages, (joints, imu, newest), strict=True):
                self.messages[topic].append(message)
            stamps = (
                seconds(Time.from_msg(message.header.stamp).nanoseconds) for message in (newest, previous, joints, imu)
            )
            self.steps.append(PolicyStep(*stamps, cold, command))
        self.messages["controller/policy_step"] = [
            Float64MultiArray(data=step.vector().tolist()) for step in self.steps
        ]

    @staticmethod
    def _trajectory(step: int, positions) -> JointTrajectory:
        message = JointTrajectory(
            joint_names=list(JOINT_NAMES), points=[JointTrajectoryPoint(positions=list(positions))]
        )
        message.header.stamp = stamp(step)
        return message

    def entries(self, delays=(0, 1, 2, 3)):
        """All messages as (topic, received [ns], message); delays [ns]: of each topic from stamp to reception."""
        return [("joint_trajectory", START - PERIOD, self.before)] + [
            (topic, START + step * PERIOD + delay, message)
            for delay, (topic, sequence) in zip(delays, self.messages.items(), strict=True)
            for step, message in enumerate(sequence)
        ]


def step_of(received: int) -> int:
    return (received - START) // PERIOD


def stamp(step: int, offset: int = 0):
    return Time(nanoseconds=START + step * PERIOD + offset).to_msg()


@pytest.fixture(scope="module")
def walk(robot, model):
    return Walk(robot, model)


@pytest.fixture
def record(walk, tmp_path):
    """Write messages (topic, received [ns], message) to a bag; by default the walk's, except topics and steps in
    `without`.
    """

    def record(messages=(), without=(), folder="bag"):
        messages = messages or [entry for entry in walk.entries() if (entry[0], step_of(entry[1])) not in without]
        store = get_typestore(Stores.ROS2_JAZZY)
        with Writer(tmp_path / folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            kinds = {topic: f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}" for topic, kind in KINDS.items()}
            connections = {
                topic: writer.add_connection(f"/dog/{topic}", kinds[topic], typestore=store)
                for topic in dict.fromkeys(topic for topic, _, _ in messages)
            }
            for topic, received, message in sorted(messages, key=lambda entry: entry[1]):
                writer.write(connections[topic], received, serialize_message(message))
        return read_replay_bag(str(tmp_path / folder))

    return record


class Replay(StepReplay):
    """A replay with the cold starts that it reports."""

    def __init__(self, bag, robot, model) -> None:
        self.reasons: list[str] = []
        limiter, state = JointLimiter(robot, 1.0 / RATE), StateBuffer(robot.joint_names, STATE_TIMEOUT)
        runner = PolicyRunner(load_policy(model), model.command_shaper(), limiter)
        self.core = RecordingController(robot, state, runner, follows_targets=False)
        super().__init__(self.core, state, model, bag.run, self.reasons.append)
        for message in bag.messages():
            self.receive(*message)


@pytest.fixture
def replay(record, robot, model):
    """Make a replay of a bag as `record` writes it."""
    return lambda *arguments, **options: Replay(record(*arguments, **options), robot, model)


def comparable(taken):
    return [step.comparable for step in taken]


def test_the_same_policy_gives_the_same_targets_again_and_publishes_the_steps_as_it_did_live(replay, walk):
    replayed = replay()
    for count, step in enumerate(replayed.advance(math.inf)):
        recorded, published = walk.steps[count], replayed.core.policy_step
        assert seconds(step.stamp) == recorded.target_stamp and step.comparable and step.difference == 0.0
        np.testing.assert_array_equal(step.targets, walk.sent[count])
        for name in ("joints_stamp", "imu_stamp", "cold"):
            assert getattr(published, name) == getattr(recorded, name)
        np.testing.assert_array_equal(published.command, recorded.command)
    assert (count + 1, replayed.result.lost, replayed.reasons) == (COUNT, 0, [])


def test_a_step_is_taken_once_everything_that_it_saw_has_been_received(replay, walk):
    replayed, received = replay(), (START + 5 * PERIOD) * 1e-9
    assert len(list(replayed.advance(received - 1e-3))) == 5
    assert len(list(replayed.advance(received + 1e-3))) == 1


def test_topics_may_be_recorded_late(replay, walk):
    replayed = replay(walk.entries([delay * PERIOD for delay in (0, 17, 3, 1)]))
    np.testing.assert_array_equal([step.targets for step in replayed.advance(math.inf)], walk.sent)
    assert replayed.reasons == []


@pytest.mark.parametrize("topic", ["joint_states", "imu/data", "joint_trajectory"])
def test_a_step_whose_message_is_missing_is_lost_and_the_next_one_starts_cold(replay, walk, topic):
    replayed = replay(without=[(topic, 10)])
    taken = list(replayed.advance(math.inf))
    lost = 2 if topic == "joint_trajectory" else 1  # a target is also what the next step sent before
    assert (len(taken), replayed.result.lost, replayed.result.faults) == (COUNT - lost, lost, 0)
    assert f"{topic} that is not in the recording" in replayed.reasons[0]
    assert comparable(taken) == [True] * 10 + [False] * (COLD_AGAIN - 10 - lost) + [True] * (COUNT - COLD_AGAIN)
    assert max(step.difference for step in taken if step.comparable) == 0.0
    assert max(step.difference for step in taken if not step.comparable) > 1e-5


def test_steps_are_compared_again_once_both_policies_have_forgotten_what_was_before(replay, model):
    replayed = replay(without=[("controller/policy_step", 40)])
    taken, forgotten = list(replayed.advance(math.inf)), 41 + model.card.memory
    assert forgotten < COUNT
    assert len(replayed.reasons) == 1
    assert "are missing" in replayed.reasons[0]
    assert comparable(taken) == [True] * 40 + [False] * (forgotten - 41) + [True] * (COUNT - forgotten)
    assert max(step.difference for step in taken[40 : forgotten - 1]) > 1e-5
    assert max(step.difference for step in taken if step.comparable) < 1e-6


def test_a_recording_that_begins_in_the_middle_of_a_walk_starts_cold(replay):
    replayed = replay(without=[("controller/policy_step", step) for step in range(5)])
    taken = list(replayed.advance(math.inf))
    assert replayed.reasons == ["the recording begins in the middle of a walk"]
    assert not taken[0].comparable
    assert taken[-1].comparable


def test_a_replay_that_begins_again_gives_the_same_targets(replay):
    replayed = replay()
    first = list(replayed.advance(math.inf))
    replayed.rewind()
    again = list(replayed.advance(math.inf))
    assert ["jumped back by 1.980 s" in reason for reason in replayed.reasons] == [True]
    np.testing.assert_array_equal([step.targets for step in first], [step.targets for step in again])
    assert all(comparable(again))


def changed(walk, topic, step, message):
    """The walk's messages as `record` takes them, with this one in the place of another."""
    return [
        (name, received, message if (name, step_of(received)) == (topic, step) else original)
        for name, received, original in walk.entries()
    ]


def not_finite(walk):
    broken = JointState(name=list(JOINT_NAMES), position=[math.nan] * 12, velocity=[0.0] * 12)
    broken.header.stamp = walk.messages["joint_states"][10].header.stamp
    return "joint_states", broken


def tilted(walk):
    tilted = copy.deepcopy(walk.messages["imu/data"][10])
    tilted.orientation.x, tilted.orientation.w = math.sin(0.7), math.cos(0.7)
    return "imu/data", tilted


@pytest.mark.parametrize(("state", "named"), [(not_finite, "is not a finite number"), (tilted, "tilted by 1.40 rad")])
def test_a_fault_of_the_controller_loses_the_step_and_the_replay_goes_on(replay, walk, state, named):
    topic, message = state(walk)
    replayed = replay(changed(walk, topic, 10, message))
    taken = list(replayed.advance(math.inf))
    assert (len(taken), replayed.result.lost, replayed.result.faults) == (COUNT - 1, 1, 1)
    (reason,) = replayed.reasons
    assert named in reason
    assert comparable(taken) == [True] * 10 + [False] * (COLD_AGAIN - 11) + [True] * (COUNT - COLD_AGAIN)
    assert max(step.difference for step in taken if step.comparable) == 0.0
    assert np.isfinite([step.targets for step in taken]).all()
    assert replayed.core.mode is Mode.WALKING


def test_targets_that_asked_for_damping_are_no_step(replay, walk):
    damping = JointTrajectory(joint_names=list(JOINT_NAMES), points=[JointTrajectoryPoint(velocities=[0.0] * 12)])
    damping.header.stamp = walk.messages["joint_trajectory"][10].header.stamp
    replayed = replay(changed(walk, "joint_trajectory", 10, damping))
    assert len(list(replayed.advance(math.inf))) == COUNT - 2
    assert (replayed.result.lost, replayed.result.faults) == (2, 0)


def test_an_emergency_stop_lasts_until_it_is_reset(replay):
    replayed = replay()

    def until(step):
        return list(replayed.advance((START + step * PERIOD - PERIOD / 2) * 1e-9))

    assert len(until(10)) == 10
    replayed.core.emergency_stop()
    assert until(20) == []
    assert replayed.result.faults == 10
    assert all("emergency stop" in reason for reason in replayed.reasons)
    assert replayed.core.mode is Mode.FAULT
    replayed.core.reset()
    assert comparable(until(COUNT)) == [False] * 10 + [True] * (COUNT - COLD_AGAIN)


@pytest.mark.parametrize("request_name", ["stand_up", "recover", "walk", "lie_down"])
def test_the_recording_alone_decides_what_the_robot_does(replay, request_name):
    replayed = replay()
    list(replayed.advance((START + 10 * PERIOD) * 1e-9))
    with pytest.raises(FcnetError, match="the recording decides"):
        getattr(replayed.core, request_name)(*([0.0] if request_name in ("stand_up", "recover") else []))
    assert all(step.comparable and step.difference == 0.0 for step in replayed.advance(math.inf))


def states(walk, steps=range(COUNT)):
    """States and a command, without targets and steps."""
    command = Twist()
    command.linear.x, command.angular.z = 0.3, 0.1
    messages = [("cmd_vel", START + step * PERIOD, command) for step in range(-1, COUNT, 5)]
    for topic in ("joint_states", "imu/data"):
        messages += [(topic, START + step * PERIOD + 1, walk.messages[topic][step]) for step in steps]
    return messages


def test_a_bag_of_states_alone_is_walked_over_as_offline(replay, record, walk, robot, model):
    replayed = replay(states(walk))
    taken = list(replayed.advance(math.inf))
    offline = walk_over_states(record(states(walk), folder="again").run, load_policy(model), model, robot)
    assert [seconds(step.stamp) for step in taken] == offline.time.tolist()
    np.testing.assert_allclose([step.targets for step in taken], offline.action, atol=1e-9)
    assert not any(comparable(taken))
    assert (replayed.result.lost, replayed.reasons) == (0, [])


def test_after_a_gap_the_walk_over_states_starts_cold(replay, walk):
    replayed = replay(states(walk, [*range(10), *range(30, COUNT)]))
    taken = list(replayed.advance(math.inf))
    alone = list(replay(states(walk, range(30, COUNT)), folder="end").advance(math.inf))
    assert len(taken) == COUNT - 20
    np.testing.assert_array_equal([step.targets for step in taken[10:]], [step.targets for step in alone])


def test_states_without_imu_are_not_walked_over(replay, walk):
    messages = [message for message in states(walk) if message[0] != "imu/data" or message[1] < START + 20 * PERIOD]
    replayed = replay(messages)
    taken = list(replayed.advance(math.inf))
    assert len(taken) == 24  # the IMU of step 19 is good for 0.1 s, and older than its joints by 1 ms
    assert (replayed.result.lost, replayed.reasons) == (0, [])


def test_messages_are_played_in_the_order_of_their_reception_under_names_that_move_no_robot(record):
    bag = record()
    played = list(bag.messages())
    assert [received for received, _, _ in played] == sorted(received for received, _, _ in played)
    assert len(played) == 4 * COUNT + 1
    assert bag.played() == {
        "joint_states": "joint_states",
        "imu/data": "imu/data",
        "joint_trajectory": "recorded/joint_trajectory",
        "controller/policy_step": "recorded/controller/policy_step",
    }


def test_a_bag_without_states_is_refused(record, walk):
    for topic in ("joint_states", "imu/data"):
        with pytest.raises(ReplayError, match=topic):
            record([message for message in states(walk) if message[0] != topic], folder=topic.replace("/", "_"))


def test_a_bag_with_messages_of_a_type_that_is_not_installed_ends_a_replay_with_one_sentence(
    run, robot, model, model_path, tmp_path
):
    bag = MadeBag(model, robot, seconds=0.6, storage=StoragePlugin.SQLITE3).write(tmp_path / "bag")
    with closing(sqlite3.connect(next(bag.glob("*.db3")))) as file, file:
        file.execute("UPDATE topics SET type = 'my_msgs/msg/Odometry' WHERE name = '/odom'")
    replay = [sys.executable, "-m", "fcnet_controller.replay.node"]
    program = run([*replay, *ros_arguments(bag=bag, policy=model_path, robot="aliengo")])
    assert program.wait() not in (0, None)
    assert "Traceback" not in program.output
    assert "my_msgs/msg/Odometry" in program.output


def test_the_namespace_of_a_bag_is_that_of_its_only_robot(robot, model, tmp_path):
    bag = MadeBag(model, robot, seconds=0.6, namespace="/left/dog").write(tmp_path / "bag")
    assert namespace_in(open_bag(bag)) == "left/dog"
    assert namespace_in(open_bag(bag), "/cat/") == "cat"
