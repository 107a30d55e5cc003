"""A walk is recorded, evaluated offline and replayed through ROS; real processes, one recording for all tests."""

import json
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from made_bag import MadeBag
from rclpy.qos import QoSProfile
from ros_harness import Process, launch_command, own_domain, stamp_of
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.model_file import load_model
from fcnet_core.names import SECOND
from fcnet_core.robot import load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.metrics import start_delays
from fcnet_replay.policy_replay import replay_policy
from fcnet_replay.read_run import read_run
from fcnet_replay.report.findings import LATE_START
from fcnet_ros.topics import LATCHED

AGREEMENT = 1e-5  # [rad]
PATIENCE = 90.0  # [s], for a loaded machine
NAMESPACE = "dog"
TOPICS = "joint_states imu/data odom joint_trajectory joint_gains cmd_vel controller/mode controller/policy_step"
RECORDED = {f"/{NAMESPACE}/{topic}" for topic in TOPICS.split()} | {"/diagnostics"}


@contextmanager
def recorded_walk(folder: Path, domain: int):
    """Launch a simulated robot that is recorded to `folder`, and wait until it walks."""
    with Process(launch_command("aliengo.launch.py", record="true", bag=folder, namespace=NAMESPACE), domain) as launch:
        launch.until_printed("mode: walking", PATIENCE)
        yield launch


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """The bag of a robot that walks forward for 2.5 s."""
    command = ["ros2", "topic", "pub", "-r", "10", f"/{NAMESPACE}/cmd_vel", "geometry_msgs/msg/Twist"]
    folder = tmp_path_factory.mktemp("bags") / "walk"
    with own_domain() as domain, recorded_walk(folder, domain) as launch:
        with Process([*command, "{linear: {x: 0.4}}"], domain):
            launch.until_printed(f"Subscribed to topic '/{NAMESPACE}/cmd_vel'", PATIENCE)
            time.sleep(2.5)
        assert launch.end() == 0
        assert "Traceback" not in launch.output
    return folder


def offline(folder: Path):
    """The recorded policy over the bag, without ROS."""
    bag = open_bag(folder)
    return replay_policy(read_run(bag), load_model(bag.notes.model or "aliengo"), load_robot("aliengo"))


class Listener:
    """Collects what the replay publishes: targets and steps, in order; its modes; and what goes to a robot."""

    def __init__(self, client) -> None:
        self.targets, self.steps, self.modes, self.to_robot = [], [], [], []
        deep, robot = QoSProfile(depth=5000), f"/{NAMESPACE}"
        client.subscribe(String, f"{robot}/replay/mode", lambda mode: self.modes.append(mode.data), LATCHED)
        client.subscribe(Float64MultiArray, f"{robot}/replay/policy_step", self.steps.append, deep)
        client.subscribe(JointTrajectory, f"{robot}/replay/joint_trajectory", self.targets.append, deep)
        client.subscribe(JointTrajectory, f"{robot}/joint_trajectory", self.to_robot.append, deep)

    @property
    def stamps(self):
        return np.array([stamp_of(message) for message in self.targets]) / SECOND

    def assert_played(self, time, action) -> None:
        """Assert that targets (T, 12) [rad] were published with these stamps (T,) [s]."""
        np.testing.assert_allclose(self.stamps, time, atol=1e-6, rtol=0)
        assert np.abs([message.points[0].positions for message in self.targets] - action).max() < AGREEMENT


def replay(launch, folder: Path, summary: Path, **arguments):
    """Replay through ROS to the end: exit code, output, summary."""
    program = launch("replay.launch.py", bag=folder, summary=summary, **arguments)
    code = program.wait(PATIENCE)
    assert "Traceback" not in program.output
    assert program.survivors() == {}
    return code, program.output, json.loads(summary.read_text()) if summary.exists() else {}


def test_the_bag_has_every_topic_from_before_the_robot_stands_up_and_the_recorders_notes(bag):
    recorded = open_bag(bag)
    for _ in recorded.batches(frozenset()):
        pass
    assert set(recorded.contents.topics) >= RECORDED
    notes = recorded.notes
    assert (notes.robot, notes.namespace, notes.control_rate) == ("aliengo", NAMESPACE, 50.0)
    assert notes.model_fingerprint == load_model(notes.model).fingerprint
    assert notes.parameters["auto_start"] is True
    metadata = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert json.loads(metadata["custom_data"]["fcnet.launch"])["backend"] == "mujoco"
    run = read_run(open_bag(bag), NAMESPACE)
    assert "standing_up" in run.mode.modes
    standing_up = run.mode.received[run.mode.modes.index("standing_up")]
    for record in (run.joints, run.imu, run.odometry, run.targets):
        assert record.received[0] < standing_up
    assert max(start_delays(run).values()) < LATE_START


def test_the_recorded_policy_gives_the_same_targets_offline(bag):
    replayed = offline(bag)
    assert len(replayed.time) > 100
    assert replayed.lost == 0
    assert np.abs(replayed.error).max() < AGREEMENT


@pytest.fixture
def listener(client):
    return Listener(client)


def test_the_recorded_policy_gives_the_same_targets_through_ros_and_nothing_moves(
    bag, launch, client, listener, tmp_path
):
    expected = offline(bag)
    code, output, summary = replay(launch, bag, tmp_path / "summary.json", rate=10)
    assert code == 0, output
    assert (summary["lost"], summary["restarts"], summary["passed"]) == (0, 0, True)
    assert summary["compared"] == len(expected.time)
    assert summary["largest_difference"] < AGREEMENT
    listener.assert_played(expected.time, expected.action)
    assert len(listener.steps) == len(expected.time)
    assert listener.modes == ["walking"]
    assert client.health["compared"] == str(summary["compared"])
    assert listener.to_robot == []


def test_after_a_gap_and_when_the_clock_jumps_back_the_policy_starts_cold(launch, listener, tmp_path):
    def with_gap(messages):
        # The joints are away for longer: the first steps after the gap saw some that are not in the bag.
        return [entry for entry in messages if not 0.8 < entry[0] < (1.38 if entry[1] == "joint_states" else 1.3)]

    def twice(messages):
        return with_gap(messages) + [(received + 3.0, *entry) for received, *entry in with_gap(messages)]

    facts = {"namespace": f"/{NAMESPACE}", "custom": {"fcnet.robot": "aliengo", "fcnet.namespace": NAMESPACE}}
    walk = MadeBag(load_model("aliengo"), load_robot("aliengo"), seconds=2.5, **facts)
    gap, again = (replace(walk, edit=edit).write(tmp_path / edit.__name__) for edit in (with_gap, twice))
    expected = offline(gap)
    code, output, summary = replay(launch, again, tmp_path / "summary.json", rate=5, robot="aliengo")
    assert code == 0, output
    assert summary["lost"] == 2 * expected.lost > 0
    assert summary["restarts"] > 0
    listener.assert_played(np.tile(expected.time, 2), np.tile(expected.action, (2, 1)))


def test_a_replay_in_a_loop_starts_again_until_it_is_ended(bag, launch, client, listener):
    program = launch("replay.launch.py", bag=bag, rate=10, loop="true")
    client.until(lambda: any(np.diff(listener.stamps) < 0), "the first step again")
    assert program.end() == 0, program.output
    assert program.survivors() == {}


def test_a_replay_beside_a_running_robot_is_refused(bag, launch, client, tmp_path):
    client.node.create_publisher(JointState, f"/{NAMESPACE}/joint_states", 1)
    code, output, _ = replay(launch, bag, tmp_path / "summary.json")
    assert code != 0
    assert f"test_client publishes /{NAMESPACE}/joint_states: a robot, a simulator or a controller is running" in output


def test_a_killed_recorder_leaves_a_readable_bag_and_a_walking_robot(tmp_path, domain):
    with recorded_walk(tmp_path / "killed", domain) as launch:
        time.sleep(2.0)
        recorder = launch.until_printed(r"\[recorder-\d+\]: process started with pid \[(\d+)\]")[1]
        os.kill(int(recorder), signal.SIGKILL)
        launch.until_printed("the robot keeps running without it")
        assert launch.end() == 0
    assert len(offline(tmp_path / "killed").time) > 20
