"""A model file is complete, whole, and for one robot; anything else is refused with one sentence."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from damage import read_damaged
from msgspec import structs

from fcnet_core.errors import FcnetError
from fcnet_core.model_file import (
    FORMAT_VERSIONS,
    METADATA_ENTRY,
    PolicyModel,
    card_to_json,
    check_robot,
    load_model,
    save_model,
    stored_card,
)
from fcnet_core.observation import ROBOT_SIGNALS, Input, VectorAction
from fcnet_core.observation.terms import Command, ProjectedGravity, Vector
from fcnet_core.policy import load_policy
from fcnet_core.robot import SETPOINT_FIELDS, load_robot

DATA = Path(__file__).parent / "data"


@pytest.fixture
def path(small, tmp_path):
    save_model(small.model, tmp_path / "policy.safetensors")
    return tmp_path / "policy.safetensors"


def refusal(path) -> str:
    with pytest.raises(FcnetError) as caught:
        load_model(path)
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


def with_scale(model: PolicyModel, **scales) -> PolicyModel:
    return replace(model, scales=model.scales | scales)


def write(model: PolicyModel, path, **card_changes) -> None:
    """Write without any of the checks of save_model."""
    card = json.loads(stored_card(model.card)) | card_changes
    safetensors.numpy.save_file(model.tensors, path, metadata={METADATA_ENTRY: json.dumps(card)})


def test_what_is_saved_is_loaded_and_each_number_of_it_counts_in_the_fingerprint(small, path) -> None:
    loaded, robot = load_model(path), load_robot("aliengo")
    assert (loaded.card, loaded.fingerprint) == (small.model.card, small.model.fingerprint)
    for name, tensor in small.model.tensors.items():
        np.testing.assert_array_equal(loaded.tensors[name], tensor)
    commands = loaded.card.interface.commands
    assert (commands.gait, commands.ranges) == (robot.gait, robot.commands)
    nudged = with_scale(loaded, action_mean=loaded.scales["action_mean"] + np.float32(1e-6))
    assert loaded.fingerprint not in (nudged.fingerprint, with_interface(loaded, rate=100.0).fingerprint)


ENVELOPE = {
    "vx": [-0.5, 0.0, 1.5],
    "ranges": {field: [[-0.01, 0.01], [-0.02, 0.02], [0.0, 0.0]] for field in SETPOINT_FIELDS[1:]},
}


def test_an_envelope_comes_back_and_limits_commands(small, path) -> None:
    write(small.model, path, envelope=ENVELOPE)
    loaded = load_model(path)
    save_model(loaded, path)
    assert load_model(path).card == loaded.card
    assert loaded.fingerprint != small.model.fingerprint
    shaper = loaded.command_shaper()
    for _ in range(200):
        shaper.step([[2.0, 0.4, 0, 0, 0, 0, 0, 0, 0]])
    vx, vy = shaper.setpoint[0, :2]
    assert vx == pytest.approx(1.5 / 0.4 * vy)
    assert vy == pytest.approx(0.02 * (1 - vx / 1.5))


def test_a_model_of_the_first_release_keeps_the_fingerprint_that_bags_recorded_and_its_numbers() -> None:
    policy = load_policy(DATA / "first_a1.safetensors")  # small, written and run by that release's code
    assert policy.model.fingerprint == "b9450208cf8b6a9eef7b70c05702f31bbbd79653517a705fc6ab4a621e971b38"
    assert policy.model.card.interface.commands.envelope is None
    first_joints = [0.009824970737099648, 0.8818031549453735, -1.7656563520431519]
    rng, scales = np.random.default_rng(0), policy.model.scales
    noise = rng.standard_normal((100, 70)).astype(np.float32)
    actions = [policy.step(row) for row in scales["observation_mean"] + scales["observation_std"] * noise]
    np.testing.assert_allclose(actions[-1][:3], first_joints, atol=1e-6, rtol=0)


def test_a_training_runs_folder_stands_for_its_best_policy_and_a_missing_file_is_refused(small, tmp_path) -> None:
    assert "there is no model file" in refusal(tmp_path / "nothing.safetensors")
    assert "has no policy" in refusal(tmp_path)
    save_model(small.model.in_half_precision(), tmp_path / "last.safetensors")
    assert load_model(tmp_path).half
    save_model(small.model, tmp_path / "best.safetensors")
    assert load_model(tmp_path).fingerprint == small.model.fingerprint


SIZES = {"observation": 11, "action": 3}
GARBAGE = [b"", b"\0" * 4000, b"PK\x03\x04" * 500, b"\xff" * 64, os.urandom(5000)]


@pytest.mark.parametrize("content", [0.0, 0.0001, 0.001, 0.05, 0.5, 0.99, 0.99999, *GARBAGE])
def test_a_file_cut_to_a_share_or_with_garbage_is_refused(path, content) -> None:
    whole = path.read_bytes()
    path.write_bytes(content if isinstance(content, bytes) else whole[: int(content * len(whole))])
    assert "is damaged or not a model" in refusal(path)


@pytest.mark.parametrize("metadata", [None, {METADATA_ENTRY: "{"}])
def test_a_file_without_a_card_or_with_one_that_is_not_json_is_refused(small, path, metadata) -> None:
    safetensors.numpy.save_file(small.model.tensors, path, metadata=metadata)
    assert "card" in refusal(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_on_loading_and_on_saving(small, path, bad) -> None:
    weights = {name: tensor.copy() for name, tensor in small.model.weights.items()}
    weights["fc1.bias"][3] = bad
    broken = replace(small.model, weights=weights)
    write(broken, path)
    assert "not finite in fc1.bias" in refusal(path)
    with pytest.raises(FcnetError, match="not finite"):
        save_model(broken, path)


def test_a_card_too_long_to_be_read_again_is_not_written(small, path) -> None:
    model = replace(small.model, card=structs.replace(small.model.card, training={"notes": "x" * 2**20}))
    with pytest.raises(FcnetError, match=r"a card of \d+ characters, the limit is 1048576"):
        save_model(model, path)


def test_arrays_that_do_not_fit_the_card_and_a_deviation_of_zero_are_refused(small, path) -> None:
    for name, scale, named in (
        ("observation_std", np.zeros(11, np.float32), "observation_std"),
        ("action_mean", np.zeros(4, np.float32), "action_mean as F32 of shape (4,), expected F32 of shape (3,)"),
        ("action_mean", np.zeros(3), "F64"),
    ):
        write(with_scale(small.model, **{name: scale}), path)
        assert named in refusal(path)
    weights = dict(small.model.weights)
    del weights["fc0.bias"]
    write(replace(small.model, weights=weights), path)
    assert "fc0.bias" in refusal(path)


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("format_version", FORMAT_VERSIONS[-1] + 1, f"format version {FORMAT_VERSIONS[-1] + 1}"),
        ("policy_type", "hopfield", "no policy type 'hopfield'; known are body_transformer, fcnet"),
        ("window_policy", "hopping", "window_policy"),
        ("control_rate", 0.0, "rate is 0.0"),
        ("observation_clip", float("nan"), "observation_clip"),
        ("kp", [60.0] * 3, "kp has 3 numbers, expected one or 12"),
        ("gait", {"frequency": 2.0}, "gait"),
        ("command_ranges", {"wx": [0, 1, 1]}, "wx"),
        ("shape", SIZES | {"modes": 60}, "60 modes do not fit"),
        ("colour", "red", "colour"),
        ("kp", ["sixty"] * 12, "kp[0] is 'sixty'"),
        ("kp", [10**400] * 12, "kp[0]"),
        ("envelope", ENVELOPE | {"vx": [-0.5, 0.1, 1.5]}, "envelope: vx must rise"),
        ("envelope", ENVELOPE | {"vx": [-0.5, 0.0, 2.5]}, "admits vx from -0.5 to 2.5, beyond its command range"),
        ("envelope", {"vx": [0.0]}, "ranges"),
        ("shape", {"layers": 10**7}, "layers is 10000000"),
        ("shape", SIZES | {"hidden": 65536}, "parameters"),
    ],
)
def test_a_card_that_says_something_impossible_is_refused(small, path, entry, value, message) -> None:
    write(small.model, path, **{entry: value})
    assert message in refusal(path)


def with_interface(model: PolicyModel, **changes) -> PolicyModel:
    return replace(model, card=structs.replace(model.card, interface=structs.replace(model.card.interface, **changes)))


def test_a_model_fits_its_robot_by_the_names_of_the_joints(walker) -> None:
    robot, at = load_robot("aliengo"), walker.card.interface
    check_robot(walker, robot)
    order = {name: tuple(getattr(at, name)[::-1]) for name in ("joints", "kp", "kd", "default_pose")}
    check_robot(with_interface(walker, **order), robot)
    bent = {name: (*getattr(at, name)[:5], -1.4, *getattr(at, name)[6:]) for name in ("kp", "kd", "default_pose")}
    terms = (*at.inputs["observation"].terms[:-2], Command(fields=("frequency",)), Vector(name="sun", size=4))
    seen = {"observation": Input(terms=terms)}
    changes = bent | {
        "robot": "a1",
        "joints": ("tail", *at.joints[1:]),
        "inputs": seen,
        "action": VectorAction(size=12),
    }
    named = {"default_pose": "default pose", "robot": "a1, not aliengo", "inputs": "sun", "action": "joints of aliengo"}
    for entry, value in changes.items():
        with pytest.raises(FcnetError, match="tail" if entry == "joints" else named.get(entry, entry)):
            check_robot(with_interface(walker, **{entry: value}), robot)
    check_robot(with_interface(walker, inputs=seen), robot, provides=(*ROBOT_SIGNALS, "sun"))


def test_an_interface_of_its_own_makes_the_card_one_of_format_2_and_counts_in_the_fingerprint(small, path) -> None:
    terms = (ProjectedGravity(scale=2.0), Vector(name="else", size=8))
    model = with_interface(small.model, inputs={"observation": Input(terms=terms)})
    save_model(model, path)
    assert load_model(path).card == model.card
    assert load_model(path).fingerprint == model.fingerprint != small.model.fingerprint
    section = json.loads(card_to_json(model.card))["interface"]
    assert len(section["inputs"]["observation"]["terms"].pop()) == 3
    write(model, path, interface=section)
    assert "(3,)" in refusal(path) and "(11,)" in refusal(path)


def test_an_array_of_another_type_is_named_before_it_is_read(path) -> None:
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header["fc0.bias"] |= {"dtype": "BF16", "shape": [2 * header["fc0.bias"]["shape"][0]]}  # as many bytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    assert "fc0.bias as BF16" in refusal(path)


def test_a_damaged_header_is_used_or_refused_in_a_sentence(path) -> None:
    counts = read_damaged(path, load_model, files=500)
    assert counts.keys() == {"used", "refused"}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_or_interrupted_save_leaves_the_old_file_and_nothing_else(small, path, monkeypatch, error) -> None:
    before = path.read_bytes()

    def fail(handle: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)):
        save_model(with_interface(small.model, rate=100.0), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
