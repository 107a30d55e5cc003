"""What is recorded inside a simulation with Isaac Gym's interface is what happened, and a policy can be held to it."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rollout_writer
import torch

from fcnet_core.model_file import load_model
from fcnet_replay.isaac import read_recording
from fcnet_replay.metrics import action_error
from fcnet_replay.policy_replay import walk_over_states
from fcnet_replay.run import JointRecord, SetpointRecord
from sim_bridge.isaac_source import still_run

SCRIPT = Path(rollout_writer.__file__)
MODEL = load_model("aliengo")


def with_targets(run, position):
    return replace(run, targets=replace(run.targets, position=position))


def test_a_walk_is_recorded_as_it_happened(recording, aliengo):
    joints, place = recording.joints, recording.odometry.position
    assert len(joints.stamp) == 200
    assert recording.problems == ()
    assert recording.starts.tolist() == [joints.stamp[0]]
    assert np.abs(joints.position[0] - aliengo.stand_pose).max() < 0.2
    assert 0.8 < place[-1, 0] - place[50, 0] < 1.8, "3 s at 0.5 m/s"
    assert recording.setpoints.value[60, 0] == pytest.approx(0.5)
    step = np.diff(joints.position, axis=0) / recording.period
    slow = np.abs(joints.velocity[1:]) < 8.0
    assert np.corrcoef(step[slow], joints.velocity[1:][slow])[0, 1] > 0.9


def test_the_policy_that_was_recorded_would_have_done_the_same_also_with_its_own_targets(recording, aliengo):
    found = walk_over_states(recording, MODEL, aliengo)
    own = walk_over_states(recording.without_targets(), MODEL, aliengo)
    assert len(found.time) == 200
    np.testing.assert_allclose(own.action, found.recorded, atol=1e-5)
    error = action_error(found)
    assert error["agrees"]
    assert error["steps"] == 200
    assert set(error["joints"]) == set(aliengo.joint_names)
    swapped = with_targets(recording, recording.targets.position[:, [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]])
    assert action_error(walk_over_states(swapped, MODEL, aliengo))["rmse"] > 0.01  # left and right are exchanged


def test_every_episode_starts_cold(recording, aliengo):
    both = replace(recording, starts=recording.joints.stamp[[0, 100]])
    later = replace(recording, joints=JointRecord(*(array[100:] for array in vars(recording.joints).values())))
    found = walk_over_states(both, MODEL, aliengo)
    alone = walk_over_states(later, MODEL, aliengo)
    np.testing.assert_array_equal(found.action[100:], alone.action)


def test_states_that_come_oftener_than_the_policy_steps_are_taken_as_a_controller_takes_them(recording, aliengo):
    time, often = np.arange(800) * 0.005, {}
    for name in ("joints", "imu", "targets", "odometry"):
        repeated = {field: np.repeat(array, 4, axis=0) for field, array in vars(getattr(recording, name)).items()}
        repeated |= {field: time for field in ("received", "stamp") if field in repeated}
        often[name] = replace(getattr(recording, name), **repeated)
    setpoint = np.repeat(recording.setpoints.value, 4, axis=0)
    run = replace(recording, setpoints=SetpointRecord(lambda: (time, setpoint)), **often)
    found = walk_over_states(run, MODEL, aliengo)
    np.testing.assert_allclose(found.time, np.arange(200) * 0.02, atol=1e-9)
    assert np.abs(found.error).max() < 1e-5


def test_steps_without_recorded_targets_are_not_compared(recording, aliengo):
    for known in (10, 0):
        target = recording.targets.position.copy()
        target[known:] = np.nan
        error = action_error(walk_over_states(with_targets(recording, target), MODEL, aliengo))
        assert (error["steps"], error["uncompared_steps"]) == (known, 200 - known)
    assert error["rmse"] is None


@pytest.fixture
def record(environment, tmp_path):
    """Record what `act` does with the environment; return it as it is read."""

    def record(act):
        path = tmp_path / "env.rollout"
        recorder = rollout_writer.attach(environment, str(path), env_id=1)
        act()
        recorder.close()
        return read_recording(path)

    return record


def test_tensors_given_to_a_writer_give_the_same(environment, record, tmp_path):
    path, plain_step = tmp_path / "gym.rollout", environment.step
    writer = rollout_writer.RolloutWriter(environment.dt, environment.dof_names, str(path))

    def step(actions):
        state = environment.dof_pos[1], environment.dof_vel[1], environment.root_states[1]
        target = environment.default_dof_pos[0] + 0.25 * actions[1]
        writer.write(*state, actions[1], target, environment.commands[1, :3])
        return plain_step(actions)

    environment.step = step
    one = record(lambda: environment.drive(20))
    writer.close()
    assert environment.step is step, "close() gives step() back"
    other = read_recording(path)
    np.testing.assert_array_equal(one.joints.position, other.joints.position)
    np.testing.assert_array_equal(one.imu.angular_velocity, other.imu.angular_velocity)
    np.testing.assert_allclose(one.targets.position, other.targets.position, atol=1e-6)


def test_a_reset_environment_begins_an_episode(environment, record):
    def reset_after_three():
        for number in range(6):
            assert environment.step(torch.zeros(3, 12))[0] == "observations", "step() returns what it always does"
            if number == 2:
                environment.reset_buf[:] = torch.tensor([1, 1, 0])

    run = record(reset_after_three)
    np.testing.assert_array_equal(run.starts, run.joints.stamp[[0, 3]])


def test_targets_of_another_kind_of_control_are_left_open(environment, record):
    environment.cfg.control.control_type = "T"
    assert np.isnan(record(lambda: environment.step(torch.zeros(3, 12))).targets.position).all()


def test_the_writer_is_one_file_for_python_3_7_with_numpy_alone():
    ast.parse(SCRIPT.read_text(), feature_version=(3, 7))
    program = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import rollout_writer; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert not modules & {"torch", "rclpy", "fcnet_core", "yaml"}, "Isaac Gym must be imported before torch"


def test_a_robot_that_waits_stands_as_the_recording_begins_or_in_its_stand_pose(recording, aliengo):
    waiting = still_run(aliengo, 0.02, recording)
    np.testing.assert_array_equal(waiting.joints.position[0], recording.joints.position[0])
    np.testing.assert_allclose(waiting.imu.linear_acceleration[0], [0, 0, 9.81], atol=1.0)
    lying = replace(recording, joints=replace(recording.joints, position=np.tile(aliengo.lie_pose, (200, 1))))
    for posture in (still_run(aliengo, 0.02, lying), still_run(aliengo, 0.02)):
        np.testing.assert_array_equal(posture.joints.position[0], aliengo.stand_pose)
