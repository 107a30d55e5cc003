"""Training learns, repeats itself exactly, and continues exactly where it was interrupted."""

import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_processes import TINY, write_tiny_data

from fcnet_core.arrays import ArraySpec
from fcnet_core.cli import main
from fcnet_core.errors import FcnetError
from fcnet_core.learning import imitation, processes
from fcnet_core.learning.config import TrainConfig, with_settings
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Manifest, velocity_manifest
from fcnet_core.learning.imitation import Imitation
from fcnet_core.learning.trainer import Progress, load_checkpoint, summed_error
from fcnet_core.model_file import load_model, save_model
from fcnet_core.observation import LAYOUT, Input, PolicyInterface, VectorAction
from fcnet_core.observation.terms import LastAction, Vector
from fcnet_core.policy import load_policy
from fcnet_core.robot import load_robot


def finished(run: Imitation) -> Imitation:
    """Train to the end."""
    assert run.trainer.run(lambda _progress: None, lambda: False)
    return run


def weights(run: Imitation) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in run.trainer.network.state_dict().items()}


SIZES: dict[str, dict[str, Any]] = {
    "fcnet": TINY["config"],
    "mlp": {"window": 4, "hidden": [32, 16]},
    "transformer": {"hidden": 16, "layers": 2, "heads": 2, "window": 8},
    "retnet": {"layers": 2, "hidden": 16, "value_width": 32, "heads": 2, "ffn_width": 24, "window": 24},
}


@pytest.mark.parametrize(
    ("changes", "share"),
    [({}, 0.15), ({"loss": "huber"}, 0.25), ({"policy_type": "retnet", "config": SIZES["retnet"]}, 0.35)],
    ids=["mse", "huber", "retnet"],
)
def test_a_behaviour_that_depends_on_the_past_is_learnt(tiny_config, changes, share) -> None:
    """Half of the actions' variance is of an observation two steps before: without a memory that half remains."""
    reports: list[Progress] = []
    settings = {"steps": 300, "observation_noise": {}, "validation_interval": 300}
    run = Imitation(with_settings(tiny_config, **settings, **changes))
    assert run.trainer.run(reports.append, lambda: False)
    assert reports[-1].step == reports[-1].steps == 300
    assert reports[-1].loss < share * reports[0].loss
    assert reports[-1].held_out_error is not None
    assert reports[-1].held_out_error < (0.5 + share) * Dataset(run.data.folders).statistics["action"].std.mean()


def with_dropout(run: Imitation) -> None:
    network: Any = run.trainer.network
    network.fc1 = torch.nn.Sequential(network.fc1, torch.nn.Dropout(0.3))


@pytest.mark.parametrize(
    ("stopped_at", "lost", "change"),
    [(1, 0, None), (20, 7, None), (27, 0, with_dropout)],
    ids=["at the first step", "killed after its last checkpoint", "with dropout"],
)
def test_an_interrupted_run_continues_bit_for_bit(tiny_config, tmp_path, stopped_at, lost, change) -> None:
    def new() -> Imitation:
        run = Imitation(tiny_config)
        if change:
            change(run)
        return run

    reports: dict[str, list[Progress]] = {"whole": [], "parts": []}
    whole, checkpoint = new(), tmp_path / "run.ckpt"
    assert whole.trainer.run(reports["whole"].append, lambda: False)
    first, stops = new(), iter([*[False] * (stopped_at - 1), True])
    assert not first.trainer.run(reports["parts"].append, lambda: next(stops), checkpoint)
    assert first.trainer.progress.step == stopped_at
    for _ in range(lost):
        first.trainer.optimise()
    torch.rand(5)  # another user of the generator
    second = new()
    second.trainer.restore(checkpoint)
    assert second.trainer.run(reports["parts"].append, lambda: False, checkpoint)
    torch.testing.assert_close(weights(whole), weights(second), atol=0, rtol=0)
    facts = {name: [(r.step, r.loss, r.held_out_error) for r in of_run] for name, of_run in reports.items()}
    assert facts["parts"] == facts["whole"]


@pytest.mark.parametrize("policy_type", SIZES)
def test_products_in_bfloat16_learn_the_same_with_weights_in_float32(tiny_config, policy_type) -> None:
    if not torch.cpu.get_capabilities().get("avx512_bf16"):
        pytest.skip("this processor has no products of bfloat16")
    config = with_settings(tiny_config, policy_type=policy_type, config=SIZES[policy_type], steps=20, log_interval=5)
    reports: dict[str, list[Progress]] = {"float32": [], "bfloat16": []}
    for precision, into in reports.items():
        run = Imitation(with_settings(config, precision=precision))
        run.trainer.run(into.append, lambda: False)
        assert all(weight.dtype == torch.float32 for weight in weights(run).values())
    exact, rounded = ([report.loss for report in into] for into in reports.values())
    assert exact != rounded
    np.testing.assert_allclose(rounded, exact, rtol=0.03)


def test_a_precision_or_a_device_that_the_machine_lacks_is_refused(tiny_config, monkeypatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    with pytest.raises(FcnetError, match="this machine's cpu has no products of bfloat16"):
        Imitation(with_settings(tiny_config, precision="bfloat16"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(FcnetError, match="no GPU on this machine"):
        Imitation(with_settings(tiny_config, device="cuda"))
    facts = {"device_count": 1, "set_device": None, "get_device_name": "GTX 1080", "get_arch_list": ["sm_75", "sm_90a"]}
    for name, fact in facts.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, fact=fact: fact)
    for capability, sentence in {
        (6, 1): "GTX 1080 has .* 6.1, and this PyTorch needs 7.5",
        (7, 5): "needs Triton",
    }.items():
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, capability=capability: capability)
        monkeypatch.setattr(processes, "find_spec", lambda _: None)
        with pytest.raises(FcnetError, match=sentence):
            Imitation(with_settings(tiny_config, device="cuda"))


@pytest.mark.parametrize(
    ("held", "sentence"), [(3, "8 crops of 24 steps; set batch: 2, which fits"), (0, "one of them")]
)
def test_a_batch_that_the_memory_does_not_hold_is_refused_with_one_that_fits(tiny_config, monkeypatch, held, sentence):
    trainer = Imitation(with_settings(tiny_config, batch=8, crop=24)).trainer
    first = trainer.network.fc0
    forward = first.forward

    def limited(observation: torch.Tensor) -> torch.Tensor:
        if len(observation) > held:
            raise torch.OutOfMemoryError
        return forward(observation)

    monkeypatch.setattr(first, "forward", limited)
    with pytest.raises(FcnetError, match=sentence):
        trainer.optimise()


def test_what_comes_after_a_reset_does_not_train(tiny_config: TrainConfig) -> None:
    """Crops as long as a sequence end their count at step 50: nothing later may have an influence."""
    config = with_settings(tiny_config, crop=120, observation_noise={}, steps=5)
    (one, two) = (Imitation(config), Imitation(config))
    draw = two.trainer.crops.draw

    def tampered(rng: np.random.Generator, batch: int, share: slice) -> Any:
        crops = draw(rng, batch, share)
        crops.arrays["action"][:, 50:] += 7.0
        crops.arrays["observation"][:, 50:] -= 3.0
        return crops

    two.trainer.crops.draw = tampered  # type: ignore[method-assign]
    torch.testing.assert_close(weights(finished(one)), weights(finished(two)), atol=1e-5, rtol=0)


def test_only_counted_steps_enter_the_loss() -> None:
    output, wanted = torch.zeros(2, 3, 4), torch.ones(2, 3, 4)
    wanted[0, 2] = 100.0
    counts = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    assert summed_error(output, wanted, counts, "mse").item() == pytest.approx(5.0)
    assert summed_error(output, wanted, counts, "huber").item() == pytest.approx(2.5)


def test_the_learning_rate_warms_up_and_falls_to_zero(tiny_config: TrainConfig) -> None:
    trainer = Imitation(with_settings(tiny_config, steps=100, warmup=0.2, learning_rate=1.0)).trainer
    rates = [trainer.learning_rate(step) for step in range(101)]
    assert rates[20] == 1.0 == max(rates)
    assert all(np.diff(rates[:21]) > 0) and all(np.diff(rates[20:]) < 0)
    assert rates[60] == pytest.approx(0.5) and rates[100] == pytest.approx(0.0)


@pytest.mark.parametrize("change", [{"seed": 9}, {"steps": 41}, {"learning_rate": 0.02}, {"crop": 23}, "more data"])
def test_a_checkpoint_of_another_run_is_refused(tiny_config, tiny_data, tmp_path, change) -> None:
    Imitation(tiny_config).trainer.save(tmp_path / "run.ckpt")
    if isinstance(change, str):
        write_tiny_data(tiny_data, seeds=[2])
        other, named = tiny_config, r"another (normalisation|recorded steps)"
    else:
        other, named = with_settings(tiny_config, **change), f"another {next(iter(change))}"
    with pytest.raises(FcnetError, match=named):
        Imitation(other).trainer.restore(tmp_path / "run.ckpt")


def test_a_missing_or_damaged_checkpoint_is_an_error(tiny_config: TrainConfig, tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    with pytest.raises(FcnetError, match="--resume"):
        load_checkpoint(path)
    Imitation(tiny_config).trainer.save(path)
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"not a checkpoint", pickle.dumps(Path.unlink)):
        path.write_bytes(damaged)
        with pytest.raises(FcnetError):
            load_checkpoint(path)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tiny_config, tmp_path, limit) -> None:
    run, path = Imitation(tiny_config), tmp_path / "run.ckpt"
    run.trainer.save(path)
    before = path.read_bytes()
    limit(resource.RLIMIT_FSIZE, 1000)  # as a full disk
    with pytest.raises(FcnetError, match="--resume"):
        run.trainer.save(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_the_card_says_how_the_policy_was_made_and_the_policy_starts_the_next_round(tiny_config, tiny_data, tmp_path):
    run = finished(Imitation(tiny_config))
    save_model(run.policy("fcnet train ..."), tmp_path / "policy.safetensors")
    policy = load_model(tmp_path / "policy.safetensors")
    training = policy.card.training
    assert policy.card.interface.name == "aliengo" and policy.card.interface.rate == 50.0
    assert training["steps"] == 40 and training["settings"]["seed"] == 0
    assert training["data"][0]["steps"] == 2 * 6 * 120 and training["data"][0]["weight"] == 1.0
    assert training["held_out_error"] == run.trainer.progress.held_out_error
    following = Imitation(with_settings(tiny_config, data=(f"{tiny_data}:3",)), init=policy)
    torch.testing.assert_close(weights(run), weights(following), atol=0, rtol=0)
    assert following.trainer.normalisation is policy.normalisation
    assert following.policy("").card.training["started_from"] == policy.fingerprint


def test_descriptions_of_more_data_than_a_card_may_hold_are_left_out(tiny_config: TrainConfig, monkeypatch) -> None:
    run = Imitation(tiny_config)
    described = run.policy("").card.training["data"]
    monkeypatch.setattr(imitation, "LONGEST_DESCRIPTIONS", 1)
    assert run.policy("").card.training["data"] == [{**folder, "description": None} for folder in described]


def test_a_policy_accepts_the_commands_that_its_data_hold(tiny_config: TrainConfig, tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path / "driven", velocity_manifest(load_robot("aliengo"), 50.0))
    observation = np.zeros((20, 200, 70))
    observation[..., LAYOUT["command"].start] = np.linspace(-0.2, 0.8, 200)
    observation[..., LAYOUT["command"].start + 3] = np.linspace(-0.1, 0.0, 20)[:, None]
    writer.add({}, observation=observation, action=np.zeros((20, 200, 12)), first=np.zeros((20, 200)))
    run = Imitation(with_settings(tiny_config, data=[str(tmp_path / "driven")]))
    envelope = run.policy("").card.interface.commands.envelope
    assert envelope is not None
    assert (envelope.vx[0], envelope.vx[-1]) == pytest.approx((-0.2, 0.8), abs=0.2)
    assert envelope.outermost["height"] == pytest.approx((-0.1, 0.0), abs=0.05)
    assert envelope.outermost["vy"] == (0.0, 0.0)


def test_settings_that_do_not_fit_data_or_the_first_policy_are_refused(tiny_config: TrainConfig) -> None:
    for weight in ("much", "0", "nan"):
        with pytest.raises(FcnetError, match=f"{weight}.*expected a"):
            Imitation(with_settings(tiny_config, data=[f"{tiny_config.data[0]}:{weight}"]))
    with pytest.raises(FcnetError, match="smell"):
        Imitation(with_settings(tiny_config, observation_noise={"smell": 1.0}))
    other = with_settings(tiny_config, config={**tiny_config.config, "modes": 2})
    with pytest.raises(FcnetError, match="--init"):
        Imitation(other, init=Imitation(tiny_config).policy(""))


def test_crops_have_the_errors_of_the_boards_sensors_which_follow_from_the_seed(tiny_config: TrainConfig) -> None:
    seen = []
    for noise in ("board", "board", {}):
        trainer = Imitation(with_settings(tiny_config, observation_noise=noise)).trainer
        (inputs, *_) = trainer._drawn(3)
        seen.append(inputs["observation"].numpy() * trainer.normalisation.scales["observation_std"])
    np.testing.assert_array_equal(seen[0], seen[1])
    errors = (seen[0] - seen[2])[..., LAYOUT["projected_gravity"]][..., :2]  # a slow error in each crop
    assert errors.std(axis=1).mean() < 0.5 * np.abs(errors.mean(axis=1)).mean()
    assert np.abs(errors).max() < 0.05
    commands = (seen[0] - seen[2])[..., LAYOUT["command"]]
    assert not commands.any()


def test_a_task_without_joints_is_trained_with_the_interface_and_any_arrays_of_its_data(tiny_config, tmp_path) -> None:
    terms = Vector(name="sight", size=3, scale=(1.0, 2.0, 4.0)), LastAction(of="output"), LastAction(of="output", age=2)
    inputs, action = {"observation": Input(terms=terms)}, VectorAction(size=2, scale=0.5)
    interface = PolicyInterface(rate=20.0, environment="pendulum", inputs=inputs, action=action)
    manifest, rng = Manifest.of(interface, {}), np.random.default_rng(0)
    manifest.arrays["return"] = ArraySpec(())  # which no policy sees
    content = {name: rng.normal(size=(4, 100, *spec.shape)) for name, spec in manifest.arrays.items()}
    DatasetWriter(tmp_path / "task", manifest).add({}, **content, first=np.zeros((4, 100), dtype=bool))
    settings = {"data": [str(tmp_path / "task")], "observation_noise": {"sight": 0.1, "last_action": 0.01}}
    run = finished(Imitation(with_settings(tiny_config, **settings)))
    noisy = Imitation(with_settings(tiny_config, **settings))
    clean = Imitation(with_settings(tiny_config, data=settings["data"], observation_noise={}))
    (seen, *_), (true, *_) = noisy.trainer._drawn(0), clean.trainer._drawn(0)
    scale = noisy.trainer.normalisation.scales
    errors = (seen["observation"] - true["observation"]).numpy() * scale["observation_std"]
    deviation = errors.std(axis=(0, 1)) / errors[..., 0].std()
    np.testing.assert_allclose(deviation, [1.0, 2.0, 4.0, *[0.1] * 4], rtol=0.3)
    save_model(run.policy(""), tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    assert policy.model.card.interface == interface and policy.step(np.zeros(7)).shape == (2,)
    assert main(["info", str(tmp_path / "policy.safetensors")]) == 0
    wrong = settings | {"config": {**tiny_config.config, "observation": 70}}
    with pytest.raises(FcnetError, match=r"network's observation is float32 of shape \(70,\)"):
        Imitation(with_settings(tiny_config, **wrong))
