"""Rollouts that legged_gym users save: npz and pt, with other names and orders by way of a mapping."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pytest
import torch
import yaml
from damage import read_damaged

from fcnet_core.errors import FcnetError, ReplayError
from fcnet_core.robot import load_robot
from fcnet_replay.isaac import arrays as array_files
from fcnet_replay.isaac import read_recording as read_any_recording

JOINTS = load_robot("aliengo").joint_names
ORDER = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]


def read_recording(path, mapping=None):
    return read_any_recording(path, mapping, JOINTS)


@pytest.fixture
def mapping(tmp_path):
    def write(**entries):
        path = tmp_path / "mapping.yaml"
        path.write_text(yaml.safe_dump(entries))
        return path

    return write


def save_npz(path, arrays):
    np.savez_compressed(path, **arrays)


def save_pt(path, arrays):
    names = arrays["dof_names"].tolist()
    tensors = {name: torch.as_tensor(array) for name, array in arrays.items() if name != "dof_names"}
    torch.save(tensors | {"dof_names": names}, path)


def assert_same(found, expected):
    for record in ("joints", "imu", "targets", "odometry"):
        for name, array in vars(getattr(expected, record)).items():
            if name != "linear_acceleration":  # which begins anew with each episode
                np.testing.assert_allclose(getattr(getattr(found, record), name), array, atol=1e-6, err_msg=name)


SAVERS = {".npz": save_npz, ".pt": save_pt}


@pytest.mark.parametrize("suffix", SAVERS)
def test_every_kind_of_file_reads_like_the_suites_own(tmp_path, arrays, rollout, suffix):
    path = tmp_path / f"walk{suffix}"
    SAVERS[suffix](path, arrays)
    found, expected = read_recording(path), read_recording(rollout)
    assert found.period == 0.02
    assert_same(found, expected)
    np.testing.assert_allclose(found.setpoints.value, expected.setpoints.value, atol=1e-6)
    np.testing.assert_allclose(found.starts, expected.starts, atol=1e-6)


def test_one_environment_of_many_is_taken(tmp_path, arrays, mapping):
    many = dict(arrays)
    for name in ("dof_pos", "dof_vel", "root_states", "actions", "commands", "dones"):
        many[name] = np.stack([np.zeros_like(arrays[name]), arrays[name]], axis=1)
    save_npz(tmp_path / "many.npz", many)
    recording = read_recording(tmp_path / "many.npz", mapping(env=1))
    np.testing.assert_array_equal(recording.joints.position, arrays["dof_pos"][:, ORDER])
    np.testing.assert_array_equal(recording.starts, recording.joints.stamp[[0, 30]])
    with pytest.raises(ReplayError, match="2 environments, env 2"):
        read_recording(tmp_path / "many.npz", mapping(env=2))


def test_a_mapping_gives_what_the_file_lacks(tmp_path, arrays, mapping):
    other = {
        "joint_position": arrays["dof_pos"][:, ::-1],
        "joint_velocity": arrays["dof_vel"][:, ::-1],
        "root_state": arrays["root_states"][:, [0, 1, 2, 6, 3, 4, 5, *range(7, 13)]],
        "command": arrays["commands"][:, [2, 0]],
        "action": arrays["actions"][:, ::-1],
    }
    save_npz(tmp_path / "other.npz", {f"other_{name}": array for name, array in other.items()})
    names = arrays["dof_names"].tolist()
    chosen = mapping(
        robot="aliengo",
        keys={name: f"other_{name}" for name in other},
        joint_names=names[::-1],
        period=0.02,
        commands=["yaw_rate", "vx"],
        quaternion="wxyz",
        action_scale=0.25,
        default_position=dict(zip(names, arrays["default_dof_pos"][0].tolist(), strict=True)),
    )
    save_npz(tmp_path / "same.npz", arrays)
    found, expected = read_recording(tmp_path / "other.npz", chosen), read_recording(tmp_path / "same.npz")
    assert found.notes.robot == "aliengo"
    assert_same(found, expected)
    np.testing.assert_allclose(found.setpoints.value[:, [0, 2]], expected.setpoints.value[:, [0, 2]])
    assert not found.setpoints.value[:, 1].any()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dof_names": None}, "joint_names"),
        ({"dof_names": np.array([f"leg_{index}" for index in range(12)])}, "lacks the joints FR_hip_joint, "),
        ({"dof_vel": None}, "has no 'dof_vel' (joint velocity)"),
        ({"dt": None}, "has no 'dt' (period)"),
        ({"dt": np.zeros(0)}, "period"),
        ({"dt": np.float64(-1)}, "period"),
        ({"dof_vel": np.zeros((59, 12))}, "shape (59, 12); expected numbers of shape (60, 12)"),
        ({"dof_pos": np.zeros((60, 2, 12, 1))}, "shape (60, 2, 12, 1)"),
        ({"dof_pos": np.full((60, 12), "x")}, "has the type <U1"),
        ({"dof_pos": np.full((60, 12), np.inf)}, "joint position that is not finite in row 0"),
        ({"root_states": np.zeros((60, 13))}, "no unit quaternion"),
        ({"root_states": np.zeros((60, 12))}, "shape (60, 12); expected numbers of shape (60, 13)"),
        ({"dones": np.zeros(61)}, "shape (61,); expected numbers of shape (60,)"),
        ({"default_dof_pos": np.zeros(11)}, "shape (11,); expected numbers of shape (12,)"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(tmp_path, arrays, change, sentence):
    changed = {name: array for name, array in (arrays | change).items() if array is not None}
    save_npz(tmp_path / "odd.npz", changed)
    with pytest.raises(ReplayError, match=r"odd\.npz") as refusal:
        read_recording(tmp_path / "odd.npz")
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("entries", "place"),
    [
        ({"kys": {}}, "kys"),
        ({"keys": {"joint": "q"}}, "keys"),
        ({"quaternion": "zyx"}, "quaternion"),
        ({"env": -1}, "env"),
        ({"period": "often"}, "period"),
        (["keys"], "expected `object`"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused_with_a_sentence(tmp_path, arrays, entries, place):
    save_npz(tmp_path / "walk.npz", arrays)
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(entries))
    with pytest.raises(FcnetError, match=r"mapping\.yaml") as refusal:
        read_recording(tmp_path / "walk.npz", tmp_path / "mapping.yaml")
    assert place in str(refusal.value)


class Trap:
    """Unpickling this makes a file."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (open, (str(self.place), "w"))


def test_nothing_in_a_file_is_run(tmp_path, arrays):
    trap, place = Trap(tmp_path / "sprung"), tmp_path / "sprung"
    np.savez(tmp_path / "trap.npz", **(arrays | {"dof_pos": np.array([trap], dtype=object)}))
    torch.save({"dof_pos": trap}, tmp_path / "trap.pt")
    (tmp_path / "legacy.pt").write_bytes(pickle.dumps({"dof_pos": trap}))
    for name in ("trap.npz", "trap.pt", "legacy.pt"):
        with pytest.raises(ReplayError, match=name):
            read_recording(tmp_path / name)
    assert not place.exists()


def npy(shape, dtype="<f8", content=b""):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"shape": shape, "fortran_order": False, "descr": dtype})
    return header.getvalue() + content


def test_files_that_ask_for_more_memory_than_allowed_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(array_files, "LARGEST", 1 << 20)
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive:
        archive.writestr("dof_pos.npy", npy((10**12, 12)))
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("dof_pos.npy", "w", force_zip64=True) as member,
    ):
        member.write(bytes(1 << 21))
    torch.save({"dof_pos": torch.zeros(1, 1).expand(10**9, 12)}, tmp_path / "expanded.pt")
    np.savez_compressed(tmp_path / "bytes.npz", dof_pos=np.zeros((80_000, 12), dtype=np.int8))
    for name in ("claim.npz", "bomb.npz", "expanded.pt", "bytes.npz"):
        with pytest.raises(ReplayError, match=name):
            read_recording(tmp_path / name)


def test_a_file_of_no_known_kind_is_refused(tmp_path):
    (tmp_path / "walk.csv").write_text("0")
    with pytest.raises(ReplayError, match=r"expected \.rollout, \.npz, \.pt"):
        read_recording(tmp_path / "walk.csv")


@pytest.mark.parametrize("suffix", [".rollout", *SAVERS])
def test_damaged_files_give_a_recording_or_a_sentence(tmp_path, arrays, rollout, suffix):
    path = rollout
    if suffix in SAVERS:
        SAVERS[suffix](path := tmp_path / f"good{suffix}", arrays)
    assert {"refused"} <= read_damaged(path, read_recording, files=60).keys() <= {"used", "refused"}
