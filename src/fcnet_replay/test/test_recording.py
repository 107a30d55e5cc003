"""Recordings of other simulators: .rollout files, npz and pt hold what was recorded, and damage is reported."""

import json
import os
import pickle
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pytest
import rollout_writer
import torch
import yaml
from damage import read_damaged

from fcnet_core.errors import FcnetError, ReplayError
from fcnet_core.robot import load_robot
from fcnet_replay import isaac
from fcnet_replay.isaac import read_recording

JOINTS = load_robot("aliengo").joint_names

ORDER = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]  # FL FR RL RR <-> FR FL RR RL
UPRIGHT = [0] * 6 + [1] + [0] * 6  # a root state
HALF = np.sqrt(0.5)


@pytest.fixture(scope="module")
def arrays():
    """Arrays (T, n) under the names of legged_gym, float32 as its tensors: 60 steps at 50 Hz, two episodes."""
    rng = np.random.default_rng(3)
    floats = {name: rng.normal(size=(60, 12)) for name in ("dof_pos", "dof_vel", "actions", "targets")}
    floats |= {"root_states": rng.normal(size=(60, 13)), "commands": rng.uniform(-1, 1, (60, 4))}
    quaternion = floats["root_states"][:, 3:7] * 0.1 + [0.0, 0.0, 0.0, 1.0]
    floats["root_states"][:, 3:7] = quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)
    named = {"dones": np.arange(60) == 29, "dof_names": np.array(JOINTS)[ORDER], "dt": np.float64(0.02)}
    return {name: array.astype(np.float32) for name, array in floats.items()} | named


@pytest.fixture
def rollout(tmp_path, arrays):
    """The same as a .rollout file."""
    path, names = tmp_path / "walk.rollout", ("dof_pos", "dof_vel", "root_states", "actions", "targets")
    writer = rollout_writer.RolloutWriter(0.02, arrays["dof_names"].tolist(), str(path), robot="aliengo")
    for row in range(60):
        values = (arrays[name][row] for name in names)
        writer.write(*values, arrays["commands"][row, :3], first=row in (0, 30))
    writer.close()
    return path


def test_joints_come_back_in_the_suites_order(rollout, arrays):
    recording = read_recording(rollout)
    assert len(recording.joints.stamp) == 60
    assert recording.notes.robot == "aliengo"
    assert recording.problems == ()
    np.testing.assert_array_equal(recording.joints.position, arrays["dof_pos"][:, ORDER])
    np.testing.assert_array_equal(recording.joints.velocity, arrays["dof_vel"][:, ORDER])
    np.testing.assert_array_equal(recording.targets.position, arrays["targets"][:, ORDER])
    np.testing.assert_allclose(recording.setpoints.value[:, :3], arrays["commands"][:, :3])
    np.testing.assert_allclose(recording.starts, recording.joints.stamp[[0, 30]])
    np.testing.assert_allclose(np.diff(recording.joints.stamp), 0.02)


@pytest.fixture
def write(tmp_path):
    """Write a rollout with a row for each joint angle or angles; return its path."""

    def write(angles, names=JOINTS, root=UPRIGHT, first=(0,)):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.rollout"
        writer = rollout_writer.RolloutWriter(0.02, names, str(path))
        for row, angle in enumerate(angles):
            position = np.broadcast_to(angle, len(names))
            writer.write(position, np.zeros(len(names)), root, command=(0, 0, 0), first=row in first)
        writer.close()
        assert writer.skipped == sum(np.isnan(angle).any() for angle in angles)
        return path

    return write


@pytest.mark.parametrize("names", [JOINTS, JOINTS[::-1], ("tail_joint", *JOINTS[5:], *JOINTS[:5])])
def test_another_order_of_joints_means_the_same(write, names):
    angles = [JOINTS.index(name) / 10 if name in JOINTS else 9.0 for name in names]
    recording = read_recording(write([angles], names), joint_names=JOINTS)
    np.testing.assert_allclose(recording.joints.position[0], np.arange(12) / 10, atol=1e-6)
    assert [problem.kind for problem in recording.problems] == ["left_out"] * ("tail_joint" in names)


@pytest.mark.parametrize(
    ("quaternion", "rate", "speed", "force"),
    [
        ([0, 0, HALF, HALF], [0, -2, 0], [0, -1, 0], [0, 0, 9.81]),
        ([-HALF, 0, 0, HALF], [2, 0, 0], [1, 0, 0], [0, -9.81, 0]),
    ],
    ids=["a quarter turn to the left", "on its left side"],
)
def test_velocities_and_gravity_are_turned_into_the_body(write, quaternion, rate, speed, force):
    recording = read_recording(write([0.0], root=[0, 0, 0.3, *quaternion, 1, 0, 0, 2, 0, 0]))
    np.testing.assert_allclose(recording.imu.angular_velocity[0], rate, atol=1e-6)
    np.testing.assert_allclose(recording.odometry.velocity[0], speed, atol=1e-6)
    np.testing.assert_allclose(recording.imu.linear_acceleration[0], force, atol=1e-6)
    assert np.isnan(recording.targets.position).all()


def test_an_accelerometer_feels_how_the_velocity_changes(rollout, arrays):
    recording, speed = read_recording(rollout), arrays["root_states"][:, 7:10]
    expected = np.diff(speed, axis=0) / 0.02 + [0, 0, 9.81]
    felt = np.linalg.norm(recording.imu.linear_acceleration, axis=1)
    expected[29] = 0, 0, 9.81  # the start of an episode
    np.testing.assert_allclose(felt[1:], np.linalg.norm(expected, axis=1), rtol=1e-5)


def test_a_file_cut_off_anywhere_is_read_up_to_there(rollout, tmp_path):
    content = rollout.read_bytes()
    whole = read_recording(rollout)
    cut = tmp_path / "cut.rollout"
    for size in np.linspace(len(content) // 4, len(content) - 1, 40).astype(int):
        cut.write_bytes(content[:size])
        recording = read_recording(cut)
        np.testing.assert_array_equal(recording.targets.position, whole.targets.position[: len(recording.joints.stamp)])
        assert len(recording.joints.stamp) >= 60 * size // len(content) - 3


@pytest.mark.parametrize(
    "damaged",
    [
        lambda content, middle: content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :],
        lambda content, middle: content[:middle] + b"FCRS\xff\xff\xff\xff" + bytes(1000) + content[middle + 7 :],
    ],
    ids=["changed", "inserted and lost"],
)
def test_damage_costs_the_rows_it_hits_and_is_reported(rollout, damaged):
    content = rollout.read_bytes()
    rollout.write_bytes(damaged(content, len(content) // 2))
    recording = read_recording(rollout)
    assert len(recording.joints.stamp) == 59
    assert recording.problems[0].kind == "damaged"


@pytest.mark.parametrize(
    ("lost", "first", "start", "kinds"),
    [(slice(10, 12), (0,), 10, []), (slice(10, 12), (0, 11), 10, []), (slice(20, 40), (0,), 20, ["gap"])],
    ids=["a row", "the first of an episode", "a long gap"],
)
def test_a_row_that_is_left_out_starts_an_episode(write, lost, first, start, kinds):
    angles = np.zeros(60)
    angles[lost] = np.nan  # a simulation that blows up is not recorded
    recording = read_recording(write(angles, first=first))
    np.testing.assert_array_equal(recording.starts, recording.joints.stamp[[0, start]])
    assert [problem.kind for problem in recording.problems] == kinds


def test_a_file_made_to_be_searched_for_ever_is_refused(write):
    path = write([0.0, 0.0])
    content = path.read_bytes()
    row = content.rindex(b"FCRS")
    path.write_bytes(content[:row] + content[row : row + 8] * 1_000 + content[row:])
    assert len(read_recording(path).joints.stamp) == 2
    path.write_bytes(content[:row] + content[row : row + 8] * 400_000 + content[row:])
    with pytest.raises(ReplayError, match="damaged all over"):
        read_recording(path)


def test_a_writer_refuses_an_existing_file_and_rows_of_another_robot(rollout, tmp_path):
    with pytest.raises(FileExistsError):
        rollout_writer.RolloutWriter(0.02, JOINTS, str(rollout))
    writer = rollout_writer.RolloutWriter(0.02, JOINTS, str(tmp_path / "a.rollout"))
    with pytest.raises(ValueError, match="expected \\(37, 24, 3\\)"):
        writer.write([0] * 18, [0] * 18, [0] * 13, command=(0, 0, 0))
    writer.close()


def test_a_writer_that_is_killed_has_lost_nothing_it_was_given(tmp_path):
    path = tmp_path / "killed.rollout"
    program = f"""
        import sys
        sys.path.insert(0, {str(Path(rollout_writer.__file__).parent)!r})
        import rollout_writer
        writer = rollout_writer.RolloutWriter(0.02, {list(JOINTS)!r}, {str(path)!r})
        for row in range(10**9):
            writer.write([row] * 12, [0] * 12, [0] * 6 + [1] + [0] * 6, command=(0, 0, 0))
            print(row, flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        rows = [int(process.stdout.readline()) for _ in range(200)]
        process.kill()
        rows += map(int, process.stdout.read().split())
    assert len(read_recording(path).joints.stamp) > rows[-1]


def test_a_full_disk_ends_the_recording_and_not_the_simulation(capsys, tmp_path):
    writer = rollout_writer.RolloutWriter(0.02, JOINTS, str(tmp_path / "a.rollout"))
    writer._file.close()
    writer._file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 - the writer closes it
    for _ in range(3):
        writer.write([0] * 12, [0] * 12, UPRIGHT, command=(0, 0, 0))
    assert capsys.readouterr().err.count("takes no more") == 1
    writer.close()


# Files of arrays as legged_gym users save them, with other names and orders by a mapping.


def read(path, mapping=None):
    return read_recording(path, mapping, JOINTS)


def mapping(folder, entries):
    """A mapping as a file."""
    (folder / "mapping.yaml").write_text(yaml.safe_dump(entries))
    return folder / "mapping.yaml"


def save_pt(path, arrays):
    names = arrays["dof_names"].tolist()
    tensors = {name: torch.as_tensor(array) for name, array in arrays.items() if name != "dof_names"}
    torch.save(tensors | {"dof_names": names}, path)


def assert_same(found, expected):
    for record in ("joints", "imu", "targets", "odometry"):
        for name, array in vars(getattr(expected, record)).items():
            if name != "linear_acceleration":  # which starts at zero in each episode
                np.testing.assert_allclose(getattr(getattr(found, record), name), array, atol=1e-6, err_msg=name)


SAVERS = {".npz": lambda path, arrays: np.savez_compressed(path, **arrays), ".pt": save_pt}


@pytest.mark.parametrize("suffix", SAVERS)
def test_every_kind_of_file_reads_like_the_suites_own(tmp_path, arrays, rollout, suffix):
    path = tmp_path / f"walk{suffix}"
    SAVERS[suffix](path, arrays)
    found, expected = read(path), read(rollout)
    assert found.period == 0.02
    assert_same(found, expected)
    np.testing.assert_allclose(found.setpoints.value, expected.setpoints.value, atol=1e-6)
    np.testing.assert_allclose(found.starts, expected.starts, atol=1e-6)


def test_one_environment_of_many_is_taken(tmp_path, arrays):
    split = (name for name, array in arrays.items() if array.ndim == 2 or name == "dones")
    many = {name: np.stack([np.zeros_like(arrays[name]), arrays[name]], axis=1) for name in split}
    np.savez(tmp_path / "many.npz", **(arrays | many))
    recording = read(tmp_path / "many.npz", mapping(tmp_path, {"env": 1}))
    np.testing.assert_array_equal(recording.joints.position, arrays["dof_pos"][:, ORDER])
    np.testing.assert_array_equal(recording.starts, recording.joints.stamp[[0, 30]])
    with pytest.raises(ReplayError, match="2 environments, env 2"):
        read(tmp_path / "many.npz", mapping(tmp_path, {"env": 2}))


def test_a_mapping_gives_what_the_file_lacks_and_a_mistake_in_it_is_named(tmp_path, arrays, rollout):
    other = {
        "joint_position": arrays["dof_pos"][:, ::-1],
        "joint_velocity": arrays["dof_vel"][:, ::-1],
        "root_state": arrays["root_states"][:, [0, 1, 2, 6, 3, 4, 5, *range(7, 13)]],
        "command": arrays["commands"][:, [2, 0]],
        "target": arrays["targets"][:, ::-1],
    }
    np.savez(tmp_path / "other.npz", **{f"other_{name}": array for name, array in other.items()})
    facts = {"robot": "aliengo", "period": 0.02, "commands": ["yaw_rate", "vx"], "quaternion": "wxyz"}
    facts |= {"keys": {name: f"other_{name}" for name in other}, "joint_names": arrays["dof_names"].tolist()[::-1]}
    found, expected = read(tmp_path / "other.npz", mapping(tmp_path, facts)), read(rollout)
    assert found.notes.robot == "aliengo"
    assert_same(found, expected)
    np.testing.assert_allclose(found.setpoints.value[:, [0, 2]], expected.setpoints.value[:, [0, 2]])
    assert not found.setpoints.value[:, 1].any()
    for entry, value in {"keys": {"joint": "q"}, "quaternion": "zyx", "env": -1}.items():
        with pytest.raises(FcnetError, match=rf"mapping\.yaml.*{entry}"):
            read(tmp_path / "other.npz", mapping(tmp_path, {entry: value}))


GOOD = {"format": "fcnet rollout", "version": 1, "period": 0.02, "joint_names": list(JOINTS), "commands": []}


def headed(header):
    """A file of a header alone."""
    content = header if isinstance(header, bytes) else json.dumps(GOOD | header).encode()
    return lambda path, _: path.with_suffix(".rollout").write_bytes(rollout_writer.frame(b"FCRH", content))


def saved(**change):
    """A file of other arrays; None: without the array."""

    def save(path, arrays):
        changed = {name: array for name, array in (arrays | change).items() if array is not None}
        np.savez(path.with_suffix(".npz"), **changed)

    return save


def of_size(size, content=b""):
    def write(path, _):
        path.with_suffix(".rollout").write_bytes(content)
        os.truncate(path.with_suffix(".rollout"), size)

    return write


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (headed({"version": 2}), "$.version"),
        (headed({"format": "bag"}), "$.format"),
        *((headed({"joint_names": names}), "$.joint_names") for names in (["a"] * 2_000, [["a"]])),
        *((headed({"period": period}), "$.period") for period in ("soon", 3600.0)),
        (headed({"period": float("inf")}), "malformed"),
        (headed({}), "no complete step"),
        *((headed(content), "cannot be used") for content in (b"[" * 60_000, b"\xff\xfe", b"7")),
        (lambda path, _: path.with_suffix(".csv").write_text("0"), "expected .rollout, .npz, .pt"),
        (lambda *_: None, "there is no recording"),
        (of_size(0), "empty"),
        (of_size(5_000, os.urandom(5_000)), "header of a rollout"),
        (of_size(1 << 33), "at most"),
        (saved(dof_names=None), "joint_names"),
        (saved(dof_names=np.array([f"leg_{index}" for index in range(12)])), "lacks the joints FR_hip_joint, "),
        (saved(dof_vel=None), "has no 'dof_vel' (joint velocity)"),
        (saved(dt=None), "has no 'dt' (period)"),
        *((saved(dt=period), "period") for period in (np.zeros(0), np.float64(-1))),
        (saved(dof_vel=np.zeros((59, 12))), "shape (59, 12); expected numbers of shape (60, 12)"),
        (saved(dof_pos=np.zeros((60, 2, 12, 1))), "shape (60, 2, 12, 1)"),
        (saved(dof_pos=np.full((60, 12), "x")), "has the type <U1"),
        (saved(dof_pos=np.full((60, 12), np.inf)), "joint position that is not finite in row 0"),
        (saved(root_states=np.zeros((60, 13))), "no unit quaternion"),
        (saved(root_states=np.zeros((60, 12))), "shape (60, 12); expected numbers of shape (60, 13)"),
        (saved(dones=np.zeros(61)), "shape (61,); expected numbers of shape (60,)"),
        (saved(targets=np.zeros((60, 11))), "shape (60, 11); expected numbers of shape (60, 12)"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(tmp_path, arrays, make, sentence):
    make(tmp_path / "odd", arrays)
    path = next(tmp_path.iterdir(), tmp_path / "none.rollout")
    with pytest.raises(ReplayError) as refusal:
        read(path)
    assert sentence in str(refusal.value) and path.name in str(refusal.value)


def test_nothing_in_a_file_is_run(tmp_path, arrays):
    place = tmp_path / "sprung"

    class Trap:
        def __reduce__(self):
            return (open, (str(place), "w"))

    trap = Trap()
    np.savez(tmp_path / "trap.npz", **(arrays | {"dof_pos": np.array([trap], dtype=object)}))
    torch.save({"dof_pos": trap}, tmp_path / "trap.pt")
    (tmp_path / "legacy.pt").write_bytes(pickle.dumps({"dof_pos": trap}))
    for name in ("trap.npz", "trap.pt", "legacy.pt"):
        with pytest.raises(ReplayError, match=name):
            read(tmp_path / name)
    assert not place.exists()


def test_files_that_ask_for_more_memory_than_allowed_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(isaac, "LARGEST_ARRAYS", 1 << 20)
    header = {"shape": (10**12, 12), "fortran_order": False, "descr": "<f8"}
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive, archive.open("dof_pos.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, header)
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("dof_pos.npy", "w", force_zip64=True) as member,
    ):
        member.write(bytes(1 << 21))
    torch.save({"dof_pos": torch.zeros(1, 1).expand(10**9, 12)}, tmp_path / "expanded.pt")
    np.savez_compressed(tmp_path / "bytes.npz", dof_pos=np.zeros((80_000, 12), dtype=np.int8))
    for name in ("claim.npz", "bomb.npz", "expanded.pt", "bytes.npz"):
        with pytest.raises(ReplayError, match=name):
            read(tmp_path / name)


@pytest.mark.parametrize("suffix", [".rollout", *SAVERS])
def test_damaged_files_give_a_recording_or_a_sentence(tmp_path, arrays, rollout, suffix):
    path = rollout
    if suffix in SAVERS:
        SAVERS[suffix](path := tmp_path / f"good{suffix}", arrays)
    assert {"refused"} <= read_damaged(path, read, files=60).keys() <= {"used", "refused"}
