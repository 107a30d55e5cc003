"""A recording as a robot: real processes, real topics, a real controller; and a live simulation over a real socket."""

import json
import re
import socket
import time
from contextlib import closing

import numpy as np
import pytest
import rollout_writer
from ros_harness import assert_refused, ros_arguments
from sensor_msgs.msg import Imu

from fcnet_core.robot import load_robot
from fcnet_replay.isaac import read_recording
from fcnet_ros.topics import IMU
from sim_bridge.isaac_source import LiveSource, PlaybackComparison, summary_text
from sim_bridge.parameters import PlaybackParameters

JOINTS = load_robot("aliengo").joint_names

MILLISECOND = 1_000_000
PATIENCE = 90.0  # [s], for a loaded machine


@pytest.fixture
def play(start):
    """Start the node as a process with these parameters."""
    return lambda **given: start("run", "sim_bridge", "isaac_playback", *ros_arguments(**given))


def test_the_shipped_policy_walks_on_its_recording_and_gives_the_recorded_targets(launch, rollout, tmp_path):
    # Half speed, because a busy computer misses states.
    program = launch("isaac_playback.launch.py", recording=rollout, summary=tmp_path / "summary.json", rate=0.5)
    assert program.wait(PATIENCE) == 0, program.output
    assert program.survivors() == {}
    assert "steps compared with the recorded targets" in program.output
    found = json.loads((tmp_path / "summary.json").read_text())
    assert found["compared"] > 100
    assert found["rmse_all_rad"] < 0.15, "two steps out of step give 0.2, another order of joints 0.4"
    assert set(found["rmse_rad"]) == set(JOINTS)


def test_the_topics_are_those_of_a_robot_and_ctrl_c_ends_it_with_a_summary(play, client, rollout):
    process = play(recording=rollout, wait_for_controller="false", loop="true")
    upwards = []
    client.subscribe(Imu, IMU.name, lambda imu: upwards.append(imu.linear_acceleration.z))
    client.until_states()
    assert tuple(client.joints.name) == JOINTS
    assert client.imu.header.frame_id == "imu_link"
    assert (client.odom.header.frame_id, client.odom.child_frame_id) == ("odom", "base_link")
    client.until(lambda: client.position[0] > 0.3, "the recorded robot walks forward", 30.0)
    assert np.median(upwards) == pytest.approx(9.81, abs=4.0)  # a walk has impacts: gravity is the median
    client.until(lambda: client.position[0] < 0.2, "and begins again", 30.0)
    assert process.end() == 0
    assert "0 of" in process.output


def test_until_the_controller_walks_the_robot_stands(play, client, rollout, recording):
    play(recording=rollout)
    client.until_states()
    time.sleep(0.5)
    np.testing.assert_allclose(client.joints.position, recording.joints.position[0], atol=1e-6)
    assert not any(client.joints.velocity)


def test_a_recording_of_another_robot_is_refused_by_name(play, rollout):
    assert_refused(play(recording=rollout, robot="a1"), "aliengo", "a1")


@pytest.mark.parametrize("both", [{}, {"recording": "walk.rollout", "live": "127.0.0.1:0"}])
def test_either_a_recording_or_a_live_simulation_is_played(both):
    with pytest.raises(ValueError):
        PlaybackParameters(**both)


def test_a_running_simulation_is_relayed(play, client, environment):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = play(live=address, wait_for_controller="false")
    recorder = rollout_writer.attach(environment, live=address, env_id=1, robot="aliengo", pace=True)

    def has_states():
        environment.drive(10)
        return client.odom and client.imu and client.joints

    client.until(has_states, "states of the simulation")
    joints = environment.dof_pos[1].numpy()[[environment.dof_names.index(name) for name in JOINTS]]
    assert np.abs(np.array(client.joints.position) - joints).max() < 0.5
    recorder.close()
    assert process.end() == 0
    assert "steps compared" in process.output


@pytest.fixture
def source():
    with closing(LiveSource("127.0.0.1:0", load_robot("aliengo"), print)) as source:
        yield source


@pytest.fixture
def writer(source):
    with closing(writer_for(source)) as writer:
        yield writer


def writer_for(source, path=None, robot="aliengo"):
    return rollout_writer.RolloutWriter(0.02, JOINTS, path, f"127.0.0.1:{source.port}", robot=robot)


def write(writer, angle=0.0):
    writer.write([angle] * 12, [0.0] * 12, [0.0] * 6 + [1.0] + [0.0] * 6, command=(0.1, 0.2, 0.3))


@pytest.mark.parametrize("address", ["127.0.0.1:999999", "127.0.0.1", "192.0.2.1:9870", "127.0.0.1:TAKEN"])
def test_an_address_that_cannot_be_is_refused_with_a_sentence(source, address):
    with pytest.raises(ValueError, match="free port"):
        LiveSource(address.replace("TAKEN", str(source.port)), load_robot("aliengo"), print)


def test_live_states_come_one_by_one_as_they_are_recorded(source, tmp_path):
    path, angles = tmp_path / "both.rollout", (0.0, 0.1, 0.2)
    with closing(writer_for(source, str(path))) as writer:
        for angle in angles:
            write(writer, angle)
    states, recorded = [source.receive(1.0) for _ in angles], read_recording(path)
    assert source.receive(0.01) is None
    np.testing.assert_array_equal([state.joints.position[-1] for state in states], recorded.joints.position)
    np.testing.assert_array_equal([state.setpoints.value[-1] for state in states], recorded.setpoints.value)
    assert (source.counts["states"], source.counts["bad"], source.counts["lost"]) == (3, 0, 0)


def test_bad_packets_are_counted_and_change_nothing(source, writer):
    rng = np.random.default_rng(0)
    good = rollout_writer.frame(b"FCRS", bytes(24))
    hostile = [b"", b"FCRS", rng.bytes(300), good, good[:-1], rollout_writer.frame(b"FCRH", b"[" * 9000), bytes(60_000)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for datagram in hostile:
            sender.sendto(datagram, ("127.0.0.1", source.port))
        assert source.receive(0.2) is None
        assert source.counts["bad"] + source.counts["early"] + source.counts["foreign"] == len(hostile)
        time.sleep(1.1)  # longer than SILENCE
        write(writer)
        assert source.receive(1.0) is not None
        sender.sendto(good, ("127.0.0.1", source.port))
        write(writer, np.nan)  # is not sent
        write(writer, 0.5)
        assert float(source.receive(1.0).joints.position[-1, 0]) == pytest.approx(0.5)
    assert source.counts["foreign"] == 1
    assert source.counts["lost"] == 1, "the step that was not finite"


def test_states_of_another_robot_are_left_out_and_a_sentence_says_why(source, capsys):
    with closing(writer_for(source, robot="a1")) as writer:
        write(writer)
    assert source.receive(0.2) is None
    assert (source.counts["other_robot"], source.counts["states"]) == (1, 0)
    assert re.search("is of the robot a1, not aliengo.*robot:=a1", capsys.readouterr().out)


def test_a_listener_that_starts_late_reads_the_next_header(source, writer, monkeypatch):
    monkeypatch.setattr(rollout_writer, "HEADER_PERIOD", float("inf"))
    write(writer)
    assert source.receive(0.1) is None
    assert source.counts["early"] == 1
    monkeypatch.setattr(rollout_writer, "HEADER_PERIOD", 0.0)
    write(writer)
    assert source.receive(1.0) is not None


def compared(*events):
    """The summary after what was played or received: a method, the target of all joints and a time [ms]."""
    comparison = PlaybackComparison(JOINTS)
    for event, target, stamp in events:
        getattr(comparison, event)(None if target is None else np.full(12, target), round(stamp * MILLISECOND))
    comparison.settle()
    return comparison.summary()


def test_a_response_belongs_to_the_newest_state_that_the_controller_can_have_seen():
    on_its_way = ("received", 0.5, 20.001)  # when the second state came
    found = compared(("played", 0.0, 0), ("played", 1.0, 20), on_its_way, ("received", 1.0, 25))
    assert (found["steps"], found["compared"], found["repeated_responses"]) == (2, 2, 0)
    assert found["largest_rad"]["FR_hip_joint"] == pytest.approx(0.5)
    assert found["rmse_all_rad"] == pytest.approx(0.5 / np.sqrt(2))


def test_damping_and_unknown_targets_are_not_compared():
    unknown, damping = ("played", np.nan, 0), ("received", None, 30)
    found = compared(unknown, ("received", 0.0, 10), ("played", 0.0, 20), damping)
    assert (found["steps"], found["compared"], found["damping_responses"]) == (2, 0, 1)
    assert "0 of 2 steps" in summary_text(found)
