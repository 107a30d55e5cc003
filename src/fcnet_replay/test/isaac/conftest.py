"""A made-up rollout in Isaac Gym's order of joints, and the script that writes such rollouts."""

import numpy as np
import pytest
import rollout_writer as script

ISAAC_JOINTS = tuple(f"{leg}_{joint}_joint" for leg in ("FL", "FR", "RL", "RR") for joint in ("hip", "thigh", "calf"))


@pytest.fixture(scope="session")
def rollout_writer():
    """The script, imported as a user of Isaac Gym would."""
    return script


@pytest.fixture(scope="session")
def arrays():
    """Arrays (T, n) under the names of legged_gym, float32 as its tensors: 60 steps at 50 Hz, two episodes."""
    rng = np.random.default_rng(3)
    quaternion = rng.normal(size=(60, 4)) * 0.1 + np.array([0.0, 0.0, 0.0, 1.0])
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    root = np.concatenate([rng.normal(size=(60, 3)), quaternion, rng.normal(size=(60, 6))], axis=1)
    dones = np.zeros(60, dtype=bool)
    dones[29] = True
    floats = {
        "dof_pos": rng.normal(size=(60, 12)),
        "dof_vel": rng.normal(size=(60, 12)),
        "root_states": root,
        "actions": rng.normal(size=(60, 12)),
        "commands": rng.uniform(-1, 1, (60, 4)),
        "targets": rng.normal(size=(60, 12)),
    }
    return {name: array.astype(np.float32) for name, array in floats.items()} | {
        "dones": dones,
        "dof_names": np.array(ISAAC_JOINTS),
        "dt": np.float64(0.02),
    }


@pytest.fixture
def rollout(tmp_path, arrays, rollout_writer):
    """The same as a .rollout file."""
    path = tmp_path / "walk.rollout"
    writer = rollout_writer.RolloutWriter(0.02, ISAAC_JOINTS, str(path), robot="aliengo")
    for row in range(60):
        writer.write(
            arrays["dof_pos"][row],
            arrays["dof_vel"][row],
            arrays["root_states"][row],
            arrays["actions"][row],
            arrays["targets"][row],
            arrays["commands"][row, :3],
            first=row in (0, 30),
        )
    writer.close()
    return path
