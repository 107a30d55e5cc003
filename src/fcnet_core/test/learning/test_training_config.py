"""A training configuration is checked before anything starts, and the message names the entry."""

import json
from pathlib import Path

import pytest

from fcnet_core.errors import FcnetError
from fcnet_core.learning import config as module
from fcnet_core.learning.config import TrainConfig, load_train_config, with_settings

PRESETS = Path(module.__file__).parents[1] / "config" / "train"
DATA = Path(__file__).parents[1] / "data"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_numbers_may_be_written_as_people_write_them(tmp_path: Path) -> None:
    config = load_train_config(written(tmp_path / "c.yaml", "eps: 1e-9\nlearning_rate: 1\nbetas: [0.9, 0.98]\n"))
    assert (config.eps, config.learning_rate, config.betas) == (1e-9, 1.0, (0.9, 0.98))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("leraning_rate: 1", "leraning_rate"),
        ("learning_rate: .nan", "learning_rate"),
        ("observation_noise: {smell: -1}", "observation_noise"),
        ("config: {modes: 60}", "60 modes do not fit"),
        ("config: {colour: 3}", "colour"),
        ("policy_type: oracle", "oracle.*fcnet"),
        ("window_policy: reset_every_n", "crop .128. must not exceed the window .64."),
        ("steps: 10\nepochs: 2", "give steps or epochs, not both"),
        ("crop: 24\nbatch: 1000000", r"batch \(1000000\) times crop \(24\)"),
        ("epochs: 1.0e+308", r"epochs is 1e\+308"),
        ("observation_noise: {joint_velocity: 1.0e+300}", r"1e\+300"),
        ("observation_noise: gps", "gps"),
        ("base: nowhere\nconfig: {}", "base nowhere .* imitation"),
        ("base: ../mlp\nconfig: {}", "base"),
        ("base: mlp\nconfig: 3", "config"),
        ("base: mlp\ncolour: 64", "colour"),
        ("base: mlp\nsteps: 1\nepochs: 1", "give steps or epochs"),
    ],
)
def test_a_bad_entry_is_named_with_its_file(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(FcnetError, match=rf"bad.yaml cannot be used: .*{named}|bad.yaml {named}") as caught:
        load_train_config(written(tmp_path / "bad.yaml", text))
    assert "\n" not in str(caught.value)


def test_the_length_is_steps_or_epochs() -> None:
    config = TrainConfig(crop=100, batch=10)
    assert with_settings(config, steps=5).total_steps(1_000_000) == 5
    assert with_settings(config, epochs=2.0).total_steps(1_000_000) == 2000
    with pytest.raises(FcnetError, match="give steps or epochs"):
        config.total_steps(1_000_000)


def test_every_preset_has_its_recorded_settings() -> None:
    common, recorded = json.loads((DATA / "train_presets.json").read_text()).values()
    for path in PRESETS.glob("*.yaml"):
        settings, expected = json.loads(json.dumps(load_train_config(path).entries)), common | recorded.pop(path.stem)
        config = {name: settings["config"][name] for name in expected["config"]}  # a graph of nodes is not recorded
        assert settings | {"config": config} == expected
    assert not recorded


def test_a_file_may_say_only_how_it_differs_from_a_preset(tmp_path: Path) -> None:
    text = "base: transformer\nconfig: {layers: 2}\ncrop: 64\nobservation_noise: {joint_velocity: 0.1}\nsteps: 10\n"
    config, base = load_train_config(written(tmp_path / "c.yaml", text)), load_train_config("transformer")
    changes = {"crop": 64, "steps": 10, "epochs": None, "observation_noise": {"joint_velocity": 0.1}}
    assert config == with_settings(base, config=base.config | {"layers": 2}, **changes)


def test_a_preset_is_named_from_anywhere(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_train_config("mlp") == load_train_config(PRESETS / "mlp.yaml")
    for missing in ("perceptron", tmp_path / "none.yaml"):
        with pytest.raises(FcnetError, match=rf"{missing}; .* mlp"):
            load_train_config(missing)
    written(tmp_path / "mlp", "base: retnet")  # a file comes first
    assert load_train_config("mlp").policy_type == "retnet"


def test_the_network_of_another_type_has_nothing_of_its_bases(tmp_path: Path) -> None:
    config = load_train_config(written(tmp_path / "c.yaml", "base: imitation\npolicy_type: mlp\n"))
    assert (config.policy_type, config.config, config.epochs) == ("mlp", {}, 8.0)


def test_presets_that_are_based_on_each_other_are_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "PRESETS", tmp_path)
    written(tmp_path / "one.yaml", "base: other")
    written(tmp_path / "other.yaml", "base: one")
    with pytest.raises(FcnetError, match=r"one.yaml cannot be used: base other"):
        load_train_config(written(tmp_path / "mine.yaml", "base: other"))


@pytest.mark.parametrize(("named", "model"), [("sensors", "board"), ("board", "board"), ("white", "white")])
def test_a_file_may_name_a_model_of_the_sensors(tmp_path: Path, named: str, model: str) -> None:
    config = load_train_config(written(tmp_path / "own.yaml", f"base: imitation\nobservation_noise: {named}"))
    assert config.observation_noise == model
