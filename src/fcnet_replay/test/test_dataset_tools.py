"""Datasets are joined, divided, described, checked and exported without loss; faults are named with their place."""

import json
import os
import re
import shutil
import sys
import tracemalloc
from dataclasses import replace as replace_fields
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fcnet_core.arrays import ArraySpec
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.learning.dataset import FIRST, Dataset, DatasetWriter, Manifest, velocity_manifest
from fcnet_core.model_file import save_model
from fcnet_core.observation import ARRAYS, Known, ObservationBuilder, RobotState, velocity_interface
from fcnet_core.policies.normalisation import observation_scales
from fcnet_core.robot import load_robot
from fcnet_replay.datasets.combine import merge
from fcnet_replay.datasets.lerobot import NAMES
from fcnet_replay.datasets.validation import faults

ALIENGO = load_robot("aliengo")
BUILDER = ObservationBuilder(velocity_interface(ALIENGO), ALIENGO.joint_names)
TASK = {
    "observation": ArraySpec((5,), parts={"position": 3, "velocity": 2}),
    "action": ArraySpec((1,)),
    "reward": ArraySpec(()),
    "terminal": ArraySpec((), "bool"),
    "image": ArraySpec((2, 3), "uint8"),
}
DESCRIPTION = {"source": "collect", "seed": 2**70, "envelope": {"vx": [-0.5, 1.0]}, "rate": 0.1}
MANIFESTS = {
    "quadruped": velocity_manifest(ALIENGO, 50.0, DESCRIPTION),
    "task": Manifest("hopper", 62.5, DESCRIPTION, (), TASK),
}


def sound_arrays(seed, sequences=3, steps=40):
    """Observations of a robot; episodes begin at steps 0 and 25 of every sequence."""
    rng, lead = np.random.default_rng(seed), (sequences, steps)
    joints = ALIENGO.stand_pose + rng.normal(0, 0.1, (*lead, 12))
    attitude = rng.normal(0, 0.05, (*lead, 4)) + [0, 0, 0, 1]
    attitude /= np.linalg.norm(attitude, axis=-1, keepdims=True)
    state = RobotState(joints, rng.normal(size=joints.shape), attitude, rng.normal(size=(*lead, 3)))
    setpoint = rng.uniform(0, 1, (*lead, 1)) * np.eye(9)[0]
    known = Known(setpoint, rng.uniform(size=lead), np.ones(lead, dtype=bool), (joints, joints))
    action = np.clip(joints + 0.01, ALIENGO.lower, ALIENGO.upper).astype(np.float32)
    first = np.broadcast_to(np.arange(steps) % 25 == 0, lead)
    return {"observation": BUILDER.build(state, known), "action": action, "first": first}


@pytest.fixture
def data(tmp_path):
    def write(name="data", shards=2, robot="aliengo", rate=50.0, **facts):
        writer = DatasetWriter(tmp_path / name, velocity_manifest(load_robot(robot), rate, facts))
        for index in range(shards):
            writer.write_shard(index, **sound_arrays(sum(name.encode()) + index), job={"seed": index})
        return tmp_path / name

    return write


def rows(*folders):
    """Every step of these folders, sorted."""
    return sorted(
        np.hstack([o, a]).tobytes()
        for shard in Dataset(list(folders)).shards
        for o, a in zip(shard.observation.reshape(-1, 70), shard.action.reshape(-1, 12), strict=True)
    )


S = "shard-00001/"


def change(path, place, value):
    array = np.load(path)
    array[place] = value
    np.save(path, array)


def value(name, place, number):
    return lambda folder: change(folder / f"{S}{name}.npy", place, number)


def array(name, do):
    return lambda folder: np.save(folder / f"{S}{name}.npy", do(np.load(folder / f"{S}{name}.npy")))


def manifest(**facts):
    def edit(folder):
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))

    return edit


# Damage that the reader refuses (see fcnet_core's test_dataset.py), then faults that only validation finds.
BROKEN = {
    "longer": (lambda d: os.truncate(d / S / "first.npy", 249), r"first\.npy has 249 bytes .* promises 248"),
    "archive": (lambda d: (d / S / "action.npy").write_bytes(b"PK\3\4" + b"0" * 99), r"shard-00001 .*\(action\.npy: "),
    "shape": (array("action", lambda a: a[:, :-1]), r"expected action as .* \(3, 40, 12\).* \(3, 39, 12\)"),
    "empty": (array("first", lambda a: a[:, :0]), r"expected first \(S, T\), found \(3, 0\)"),
    "type": (array("action", lambda a: a.astype(float)), r"expected action as float32 .* found float64"),
    "order": (array("action", np.asfortranarray), r"action\.npy is in column order"),
    "rate": (manifest(control_rate=-1), r"manifest\.json is damaged .*control_rate"),
    "elsewhere": (manifest(arrays={"../action": {"shape": [12]}}), r"manifest\.json is damaged .*arrays"),
    "parts": (manifest(arrays={"action": {"shape": [12], "parts": {"hip": 4}}}), r"damaged .*parts have 4 entries"),
    "NaN": (value("observation", (2, 7, 5), np.nan), r"sequence 2, step 7, joint_velocity\.FR_calf_joint .*: nan"),
    "limits": (value("action", (1, 3, 2), 1.5), r"sequence 1, step 3, action\.FR_calf_joint .* aliengo \[rad\]: 1\.5"),
    "gravity": (value("observation", (0, 4, 0), 0.9), r"sequence 0, step 4, gravity is no unit vector"),
    "angle": (value("observation", (0, 4, 15), 0.95), r"step 4, FR_hip_joint is no unit vector"),
    "phase": (value("observation", (0, 4, 62), 3), r"gait phase is no unit vector.*: 3"),
    "walk": (value("observation", (0, 4, 64), 0.5), r"walk flag is neither 0 nor 1: 0\.5"),
    "unused": (value("observation", (0, 4, 69), 1), r"constant is not 0: 1"),
    "first": (value("first", (1, 0), 0), r"does not begin sequence 1 with an episode's"),
    "robot": (manifest(robot="spot"), r"manifest\.json names the robot 'spot'"),
    "joints": (manifest(joint_names=["a"]), r"joints in another order than FR_hip_joint"),
    "promise": (manifest(description={"shards": 3}), r"holds 2 shards, manifest.* promises 3"),
    "steps": (manifest(description={"steps": 9}), r"holds 240 steps.* promises 9"),
}


@pytest.mark.parametrize("way", BROKEN)
def test_what_is_broken_is_named_with_its_place(data, capsys, way) -> None:
    folder = data()
    assert main(["dataset", "validate", str(folder)]) == 0
    damage, sentence = BROKEN[way]
    damage(folder)
    (found,) = faults(folder)
    assert re.search(sentence, found), found
    assert main(["dataset", "validate", str(folder)]) == 1
    assert found in capsys.readouterr().out


def test_many_faults_of_a_kind_are_one_with_their_number(data) -> None:
    folder = data()
    change(folder / S / "action.npy", (slice(None), slice(5), 0), np.inf)
    finite, limits = faults(folder)
    assert "action.FR_hip_joint is not finite: inf (15 steps in all)" in finite and "15 steps" in limits


def test_merging_keeps_every_step_and_where_it_is_from(data, tmp_path) -> None:
    one, two = data("one"), data("two", shards=1, expert="trot")
    assert main(["dataset", "merge", str(one), str(two), "-o", str(tmp_path / "all")]) == 0
    merged = Dataset(tmp_path / "all")
    assert rows(tmp_path / "all") == rows(one, two) and not list(faults(tmp_path / "all"))
    assert [shard.job["from"] for shard in merged.shards] == ["one/shard-00000", "one/shard-00001", "two/shard-00000"]
    assert merged.manifest.description["parts"][1] == {"folder": "two", "description": {"expert": "trot"}}


@pytest.mark.parametrize(("name", "facts"), [("other", {"robot": "a1"}), ("other", {"rate": 100.0}), ("one", {})])
def test_what_does_not_belong_together_is_not_merged(data, tmp_path, name, facts) -> None:
    one = data("one")
    other = data(name, **facts) if facts else one
    assert main(["dataset", "merge", str(one), str(other), "-o", str(tmp_path / "all")]) == USAGE_ERROR
    assert not [path for path in tmp_path.iterdir() if "all" in path.name]


@pytest.mark.parametrize("way", ["lost", "foreign", "not finite"])
def test_what_validation_finds_is_not_exported(data, tmp_path, way) -> None:
    merge([data("one"), data("other")], folder := tmp_path / "all")
    ways = {
        "lost": lambda: shutil.rmtree(folder / S),
        "foreign": lambda: shutil.copytree(folder / S, folder / "shard-00009"),
        "not finite": lambda: BROKEN["NaN"][0](folder),
    }
    ways[way]()
    assert main(["dataset", "export", str(folder), "-o", str(tmp_path / "out")]) == USAGE_ERROR


def test_merging_holds_one_shard_in_memory(tmp_path) -> None:
    writer, arrays = DatasetWriter(tmp_path / "large", MANIFESTS["quadruped"]), sound_arrays(0, 32, 400)
    for _ in range(12):
        writer.add({}, **arrays)
    size = sum(array.nbytes for array in arrays.values())
    tracemalloc.start()
    try:
        merge([tmp_path / "large"], tmp_path / "copy")
        assert tracemalloc.get_traced_memory()[1] < 4 * size
    finally:
        tracemalloc.stop()
    assert Dataset(tmp_path / "copy").steps == 12 * 32 * 400


def test_splitting_divides_whole_episodes_by_the_seed_alone(data, tmp_path) -> None:
    source = data(shards=3)
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        arguments = ["--validation", "0.3", "--seed", seed, "-o", str(tmp_path / name)]
        assert main(["dataset", "split", str(source), *arguments]) == 0
    halves = [tmp_path / "a" / half for half in ("train", "validation")]
    assert sorted(rows(halves[0]) + rows(halves[1])) == rows(source)
    assert rows(halves[1]) == rows(tmp_path / "b" / "validation") != rows(tmp_path / "c" / "validation")
    assert Dataset(halves[1]).steps == pytest.approx(0.3 * Dataset(source).steps, abs=25)
    for half in halves:
        assert not list(faults(half))
        for shard in Dataset(half).shards:
            starts = [np.flatnonzero(first).tolist() for first in shard.first]
            lengths = {int(n) for begins in starts for n in np.diff([*begins, len(shard.first[0])])}
            assert lengths <= {25, 15}  # none cut


@pytest.mark.parametrize(("steps", "share"), [(20, "0.1"), (40, "1")])
def test_one_episode_and_other_shares_cannot_be_split(tmp_path, steps, share) -> None:
    DatasetWriter(tmp_path / "one", MANIFESTS["quadruped"]).add({}, **sound_arrays(0, sequences=1, steps=steps))
    arguments = ["--validation", share, "-o", str(tmp_path / "parts")]
    assert main(["dataset", "split", str(tmp_path / "one"), *arguments]) == USAGE_ERROR
    assert not (tmp_path / "parts").exists()


def test_statistics_are_those_of_the_data(data, capsys) -> None:
    folder = data()
    change(folder / S / "action.npy", (slice(None), slice(6), 2), float(ALIENGO.upper[2]))
    assert main(["dataset", "stats", str(folder), "--json", "-"]) == 0
    figures = json.loads(capsys.readouterr().out)
    actions = np.concatenate([np.load(path).reshape(-1, 12) for path in sorted(folder.glob("*/action.npy"))])
    entry = figures["entries"]["action.FR_calf_joint"]
    assert entry["mean"] == pytest.approx(actions[:, 2].mean(), abs=1e-5)
    assert entry["std"] == pytest.approx(actions[:, 2].std(), abs=1e-5) and entry["max"] == actions[:, 2].max()
    assert (figures["steps"], figures["episodes"], figures["sequences"]) == (240, 12, 6)
    assert figures["at_limit"]["FR_calf_joint"] == pytest.approx(18 / 240)
    assert sum(figures["coverage"]["vx"]) == pytest.approx(1.0) and figures["coverage"]["vx"][0] == 0.0
    assert main(["dataset", "stats", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "240 steps (0.00133 h) in 12 episodes" in text and "targets at a joint limit: 7.50%" in text


def test_drift_from_the_observations_of_a_policy_is_listed(data, tmp_path, model, capsys) -> None:
    folder, policy = data(), str(tmp_path / "policy.safetensors")
    scales = observation_scales(Dataset(folder).statistics, ARRAYS, ARRAYS)
    trained = {name: scales.get(name, values) for name, values in model.scales.items()}
    save_model(replace_fields(model, scales=trained), Path(policy))
    assert main(["dataset", "stats", str(folder), "--against", policy]) == 0
    assert f"no drift against {policy}" in capsys.readouterr().out
    for path in folder.glob("*/observation.npy"):
        np.save(path, np.load(path) + np.eye(70, dtype=np.float32)[41] * 3)
    assert main(["dataset", "stats", str(folder), "--against", policy, "--json", "-"]) == 0
    drift = json.loads(capsys.readouterr().out)["drift"]
    assert (drift["compared"], [entry["name"] for entry in drift["entries"]]) == (70, ["angular_velocity.z"])
    assert drift["entries"][0]["shift"] == pytest.approx(3 / scales["observation_std"][41], rel=1e-4)
    assert main(["dataset", "stats", str(data("a1", robot="a1")), "--against", policy]) == USAGE_ERROR


def test_data_of_another_task_are_joined_divided_described_and_checked(tmp_path, capsys) -> None:
    rng, steps = np.random.default_rng(0), (2, 30)
    arrays = {name: rng.integers(0, 2, (*steps, *spec.shape)) for name, spec in TASK.items()}
    arrays |= {name: rng.normal(size=arrays[name].shape) for name in ("observation", "action", "reward")}
    first = np.zeros(steps, dtype=bool)
    first[:, ::10] = True
    for name in ("one", "two"):
        DatasetWriter(tmp_path / name, MANIFESTS["task"]).write_shard(0, {}, **arrays, first=first)
    folders = [str(tmp_path / name) for name in ("one", "two")]
    assert main(["dataset", "merge", *folders, "-o", str(tmp_path / "all")]) == 0
    assert main(["dataset", "split", str(tmp_path / "all"), "-o", str(tmp_path / "parts")]) == 0
    halves = [tmp_path / "parts" / half for half in ("train", "validation")]
    assert [Dataset(half).steps for half in halves] == [110, 10]
    rewards = [shard.arrays["reward"].ravel() for half in halves for shard in Dataset(half).shards]
    expected = np.sort(np.tile(arrays["reward"].ravel(), 2)).astype(np.float32)
    np.testing.assert_array_equal(np.sort(np.concatenate(rewards)), expected)
    assert main(["dataset", "validate", *map(str, halves)]) == 0
    capsys.readouterr()
    assert main(["dataset", "stats", folders[0], "--json", "-"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert len(figures["entries"]) == 5 + 1 + 1 and figures["coverage"] == {}
    assert figures["entries"]["velocity.1"]["mean"] == pytest.approx(arrays["observation"][..., 4].mean(), abs=1e-6)
    assert main(["dataset", "stats", folders[0]]) == 0 and "reward" in capsys.readouterr().out
    change(tmp_path / "one" / "shard-00000" / "reward.npy", (1, 2), np.nan)
    (fault,) = faults(tmp_path / "one")
    assert "reward.npy: sequence 1, step 2, reward is not finite" in fault


# The layout of LeRobot, with steps, episodes and statistics as LeRobot counts them.


def drawn(spec, steps, rng):
    """Any bits that are a number: also -0, the smallest and the largest."""
    if spec.dtype != "float32":
        return rng.integers(0, 2 if spec.dtype == "bool" else 256, (*steps, *spec.shape)).astype(spec.dtype)
    values = rng.normal(size=(*steps, *spec.shape)).astype(np.float32)
    values.flat[:4] = -0.0, 1e-45, np.finfo(np.float32).max, 0.1
    return values


def write(folder, manifest, shards=(0, 3)):
    """A folder whose shards differ in their sequences, with one number left out as after an interrupted collection."""
    writer = DatasetWriter(folder, manifest)
    for index in shards:
        rng, steps = np.random.default_rng(index), (2 + index, 12 - index)
        arrays = {name: drawn(spec, steps, rng) for name, spec in {**manifest.arrays, "first": FIRST}.items()}
        arrays["first"][0, 0] = index == 0
        writer.write_shard(index, {"seed": [index, 2**65], "terrain": "flat"}, **arrays)
    return folder


@pytest.fixture(params=MANIFESTS)
def exported(request, tmp_path):
    """A dataset, and the folder to which it was exported."""
    data = write(tmp_path / "data", MANIFESTS[request.param])
    assert main(["dataset", "export", str(data), "-o", str(tmp_path / "lerobot")]) == 0
    return Dataset(data), tmp_path / "lerobot"


def test_every_array_is_a_column_bit_by_bit(exported) -> None:
    data, folder = exported
    for shard, path in zip(data.shards, sorted(folder.glob("data/*/*.parquet")), strict=True):
        table = pq.read_table(path)
        for name, array in shard.arrays.items():
            column = table[NAMES.get(name, f"fcnet.{name}")].combine_chunks()
            while pa.types.is_fixed_size_list(column.type):
                column = column.flatten()
            stored = column.to_numpy(zero_copy_only=False)
            assert (stored.dtype, stored.tobytes()) == (array.dtype, array.tobytes()), name
    assert msgspec.json.decode((folder / "meta/fcnet.json").read_bytes(), type=Manifest) == data.manifest


def test_steps_and_episodes_are_counted_as_lerobot_does(exported) -> None:
    data, folder = exported
    info = json.loads((folder / "meta/info.json").read_text())
    files = [pq.read_table(path) for path in sorted(folder.glob("data/*/*.parquet"))]
    episodes = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")
    assert info["codebase_version"] == "v3.0" and info["fps"] == data.manifest.control_rate
    assert info["features"].keys() == set(files[0].column_names)
    assert (info["total_frames"], info["total_episodes"]) == (data.steps, episodes.num_rows)
    column = {name: np.concatenate([file[name].to_numpy() for file in files]) for name in ("index", "frame_index")}
    assert column["index"].tolist() == list(range(info["total_frames"]))
    done = np.concatenate([file["next.done"].to_numpy() for file in files])
    lengths = episodes["length"].to_numpy()
    assert (np.flatnonzero(done) + 1).tolist() == np.cumsum(lengths).tolist()
    assert column["frame_index"].tolist() == [frame for length in lengths for frame in range(length)]
    assert episodes["dataset_to_index"].to_pylist() == np.cumsum(lengths).tolist()
    begins = [(shard.first | (np.arange(shard.first.shape[1]) == 0)).sum() for shard in data.shards]
    assert np.bincount(episodes["data/file_index"].to_numpy()).tolist() == begins


def test_statistics_are_those_of_all_steps_and_of_each_episode(exported) -> None:
    data, folder = exported
    figures = json.loads((folder / "meta/stats.json").read_text())
    action = np.concatenate([shard.action.reshape(-1, shard.action.shape[-1]) for shard in data.shards]).astype(float)
    assert figures["action"]["count"] == [len(action)]
    for name, expected in (("mean", action.mean(0)), ("std", action.std(0)), ("max", action.max(0))):
        np.testing.assert_allclose(figures["action"][name], expected)
    assert figures["action"].keys() == figures["index"].keys() == {"min", "max", "mean", "std", "count"}
    episodes = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")
    length = episodes["length"][0].as_py()
    np.testing.assert_allclose(episodes["stats/action/mean"][0].as_py(), action[:length].mean(0))


def test_entries_have_names(exported) -> None:
    data, folder = exported
    features = json.loads((folder / "meta/info.json").read_text())["features"]
    for name, feature in (("observation", "observation.state"), ("action", "action")):
        assert tuple(features[feature]["shape"]) == data.manifest.arrays[name].shape
    expected = ["command.vx", "command.vy", "command.yaw_rate"] if data.manifest.joint_names else ["velocity.1"]
    assert features["observation.state"]["names"][-16 if len(expected) > 1 else -1 :][:3] == expected


def test_where_pyarrow_is_missing_it_says_how_to_install_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("fcnet_replay.verbs.dataset.find_spec", lambda name: None)
    assert main(["dataset", "export", str(tmp_path), "-o", str(tmp_path / "new")]) == USAGE_ERROR
    assert "requirements/sharing.txt" in capsys.readouterr().err
