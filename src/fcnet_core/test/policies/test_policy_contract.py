"""What every registered policy does in every form; a new folder under policies/ is held to it without a change here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from msgspec import structs

from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.errors import FcnetError, NonFiniteObservation
from fcnet_core.model_file import PolicyModel, card_for_robot, load_model, save_model
from fcnet_core.observation import MeasuredState
from fcnet_core.policies import policy_type, policy_type_names
from fcnet_core.policy import SequencePolicy, load_policy
from fcnet_core.robot import load_robot

BATCH = 4
TOLERANCE = 2e-6  # rad, between float32 forms of one policy
Form = Callable[[PolicyModel, np.ndarray], np.ndarray]  # observations (T, n), the first after a reset -> actions (T, a)


def model_of(name: str, **card: object) -> PolicyModel:
    """An untrained policy of the type, with units like those of real data."""
    kind, rng = policy_type(name), np.random.default_rng(7)
    config = kind.config()
    torch.manual_seed(5)
    network = kind.part(kind.network)(config)
    return PolicyModel(
        card_for_robot(load_robot("aliengo"), config, observation_clip=3.0, **card),
        {name: weight.detach().numpy().copy() for name, weight in network.state_dict().items()},
        {
            "observation_mean": rng.normal(0, 0.5, config.observation).astype(np.float32),
            "observation_std": rng.uniform(0.1, 2.0, config.observation).astype(np.float32),
            "action_mean": rng.normal(0, 0.8, config.action).astype(np.float32),
            "action_scale": rng.uniform(0.1, 0.5, config.action).astype(np.float32),
        },
    )


MODELS = {name: model_of(name) for name in policy_type_names()}


def observations(model: PolicyModel, steps: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((steps, model.card.config.observation))
    return (model.scales["observation_mean"] + 2 * model.scales["observation_std"] * noise).astype(np.float32)


def network(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    """The parallel form that is trained; it knows no resets."""
    kind = policy_type(model.card.policy_type)
    module = kind.part(kind.network)(model.card.config)
    module.load_state_dict({name: torch.from_numpy(weight) for name, weight in model.weights.items()})
    with torch.no_grad():
        output = module(torch.from_numpy(model.normalisation.input(seen))[None])[0].numpy()
    return model.normalisation.action(output)


def single(runtime: str) -> Form:
    def steps(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
        policy = load_policy(model, runtime)
        return np.stack([policy.step(row) for row in seen])

    return steps


def one_of_a_batch(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    """The actions of one robot; its neighbours see something else."""
    policy = load_policy(model, batch=3)
    return np.stack([policy.step(np.stack([row * np.float32(0.5), row, -row]))[1] for row in seen])


def forms(name: str) -> dict[str, Form]:
    found: dict[str, Form] = {runtime: single(runtime) for runtime in policy_type(name).runtimes}
    return found | {"batch": one_of_a_batch, "sequence": lambda model, seen: SequencePolicy(model).actions(seen)}


every_policy = pytest.mark.parametrize("name", MODELS)
every_form = pytest.mark.parametrize(
    ("name", "form"), [pytest.param(n, f, id=f"{n}-{key}") for n in MODELS for key, f in forms(n).items()]
)
every_runtime = pytest.mark.parametrize(("name", "runtime"), [(n, r) for n in MODELS for r in policy_type(n).runtimes])


@every_policy
def test_the_config_names_the_weights_of_the_network(name) -> None:
    model = MODELS[name]
    assert {key: weight.shape for key, weight in model.weights.items()} == model.card.config.weight_shapes()


@every_policy
def test_a_policy_runs_without_further_libraries(name) -> None:
    assert "numpy" in policy_type(name).runtimes


@pytest.mark.parametrize("name", ["body_transformer", "starformer", "transformer"])
def test_heads_that_do_not_divide_the_channels_are_refused(name) -> None:
    with pytest.raises(FcnetError, match="3 heads"):
        policy_type(name).config_from({"heads": 3})


@every_form
def test_every_form_gives_what_the_network_gives_that_was_trained(name, form) -> None:
    seen = observations(MODELS[name], 150)
    np.testing.assert_allclose(form(MODELS[name], seen), network(MODELS[name], seen), atol=TOLERANCE, rtol=0)


@every_form
def test_in_half_precision_every_form_gives_what_the_rounded_network_gives(name, form) -> None:
    half = MODELS[name].in_half_precision()
    seen = observations(half, 150)
    actions = form(half, seen)
    np.testing.assert_allclose(actions, network(half, seen), atol=TOLERANCE, rtol=0)
    difference = np.abs(actions - form(MODELS[name], seen)).max()
    assert 0 < difference < 3e-3


@every_form
def test_a_sequence_longer_than_any_block_is_no_exception(name, form) -> None:
    seen = observations(MODELS[name], 600)
    reference = form(MODELS[name], seen)
    np.testing.assert_allclose(reference, single("numpy")(MODELS[name], seen), atol=TOLERANCE, rtol=0)


@every_policy
def test_the_future_does_not_change_the_present(name) -> None:
    seen = observations(MODELS[name], 60)
    changed = seen.copy()
    changed[40:] += 1.0
    before, after = network(MODELS[name], seen), network(MODELS[name], changed)
    np.testing.assert_allclose(before[:40], after[:40], atol=TOLERANCE, rtol=0)
    assert np.abs(before[40] - after[40]).max() > 1e-4


@every_form
def test_reset_every_n_forgets_after_each_interval(name, form) -> None:
    model = MODELS[name]
    interval = model.card.config.window
    resetting = replace(model, card=structs.replace(model.card, window_policy="reset_every_n"))
    seen = observations(model, 3 * interval + 5)
    parts = np.split(seen, range(interval, len(seen), interval))
    expected = np.concatenate([network(model, part) for part in parts])
    np.testing.assert_allclose(form(resetting, seen), expected, atol=TOLERANCE, rtol=0)


@every_form
def test_what_is_older_than_the_memory_leaves_no_trace(name, form) -> None:
    model = MODELS[name]
    if not np.isfinite(model.card.memory):
        pytest.skip("remembers without end")
    memory = int(model.card.memory)
    old, recent = observations(model, 20, seed=1), observations(model, memory + 3)
    cold, warm = form(model, recent), form(model, np.concatenate([old, recent]))[20:]
    if memory:
        assert np.abs(cold[0] - warm[0]).max() > 1e-3
    np.testing.assert_allclose(cold[memory:], warm[memory:], atol=TOLERANCE, rtol=0)


@every_runtime
def test_reset_is_a_cold_start(name, runtime) -> None:
    seen, policy = observations(MODELS[name], 40), load_policy(MODELS[name], runtime)
    first = [policy.step(row) for row in seen]
    policy.reset()
    np.testing.assert_allclose([policy.step(row) for row in seen], first, atol=1e-6, rtol=0)


@every_policy
@pytest.mark.parametrize("window_policy", ["sliding", "reset_every_n"])
def test_a_batch_equals_single_robots_that_are_reset_at_different_times(name, window_policy) -> None:
    model = replace(MODELS[name], card=structs.replace(MODELS[name].card, window_policy=window_policy))
    batch, singles = load_policy(model, batch=BATCH), [load_policy(model, "numpy") for _ in range(BATCH)]
    resets = np.random.default_rng(4).random((90, BATCH)) < 0.05
    for seen, mask in zip(observations(model, 90 * BATCH).reshape(90, BATCH, -1), resets, strict=True):
        batch.reset(mask)
        for robot in np.flatnonzero(mask):
            singles[robot].reset()
        expected = [one.step(row) for one, row in zip(singles, seen, strict=True)]
        np.testing.assert_allclose(batch.step(seen), expected, atol=TOLERANCE, rtol=0)


@every_runtime
@pytest.mark.parametrize("window_policy", ["sliding", "reset_every_n"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_a_bad_observation_is_refused_and_leaves_no_trace(name, runtime, window_policy, bad) -> None:
    model = replace(MODELS[name], card=structs.replace(MODELS[name].card, window_policy=window_policy))
    seen = observations(model, model.card.config.window + 3)
    untouched, policy = load_policy(model, runtime), load_policy(model, runtime)
    for row in seen:
        poisoned = row.astype(np.float64)
        poisoned[4] = bad
        with pytest.raises(NonFiniteObservation, match="4"):
            policy.step(poisoned)
        np.testing.assert_array_equal(policy.step(row), untouched.step(row))


def standing(velocity: float = 0.0) -> MeasuredState:
    """The state of a robot in its stand pose, all of whose joints have this velocity [rad/s]."""
    return SimpleNamespace(
        orientation=np.array([0.0, 0.0, 0.0, 1.0]),
        angular_velocity=np.zeros(3),
        joint_position=load_robot("aliengo").stand_pose,
        joint_velocity=np.full(12, velocity),
    )


@every_runtime
@pytest.mark.parametrize("control_rate", [50.0, 500.0])
@pytest.mark.parametrize("steps_before", [0, 3])
def test_no_targets_are_given_from_a_bad_observation_until_a_step_succeeds(
    name, runtime, control_rate, steps_before
) -> None:
    model = MODELS[name]
    limiters = [JointLimiter(load_robot("aliengo"), 1.0 / control_rate) for _ in range(2)]
    runners = [PolicyRunner(load_policy(model, runtime), model.command_shaper(), limiter) for limiter in limiters]
    walking = np.array([0.5, *np.zeros(8)])
    for _ in range(round(control_rate / model.card.control_rate) * steps_before):
        for runner in runners:
            runner.take_command(walking)
            runner.targets(standing())
    runner, untouched = runners
    for _ in range(25):
        runner.take_command(walking)
        with pytest.raises(NonFiniteObservation):
            runner.targets(standing(np.nan))
    for _ in range(25):  # the gait clock has not gone on, the memory has not changed
        for one in runners:
            one.take_command(walking)
        np.testing.assert_array_equal(runner.targets(standing()), untouched.targets(standing()))


@every_policy
def test_one_bad_robot_is_named_and_the_whole_batch_left_untouched(name) -> None:
    batch, untouched = load_policy(MODELS[name], batch=BATCH), load_policy(MODELS[name], batch=BATCH)
    for seen in observations(MODELS[name], 20 * BATCH).reshape(20, BATCH, -1):
        bad = seen.copy()
        bad[2, 7] = np.nan
        with pytest.raises(NonFiniteObservation, match=r"\[2, 7\]"):
            batch.step(bad)
        np.testing.assert_array_equal(batch.step(seen), untouched.step(seen))


@every_runtime
def test_an_observation_of_another_size_is_refused(name, runtime) -> None:
    with pytest.raises(ValueError, match="shape"):
        load_policy(MODELS[name], runtime).step(np.zeros(12, dtype=np.float32))


@every_runtime
def test_an_action_belongs_to_the_caller(name, runtime) -> None:
    policy, (first, second) = load_policy(MODELS[name], runtime), observations(MODELS[name], 2)
    action = policy.step(first)
    copy = action.copy()
    policy.step(second)
    np.testing.assert_array_equal(action, copy)


@every_runtime
def test_the_largest_finite_observation_gives_a_finite_action(name, runtime) -> None:
    policy = load_policy(MODELS[name], runtime)
    huge = np.full(MODELS[name].card.config.observation, np.finfo(np.float32).max)
    assert np.isfinite(policy.step(huge)).all()
    assert np.isfinite(policy.step(-huge)).all()


@every_policy
def test_an_empty_sequence_has_no_actions_and_one_that_is_not_finite_is_refused(name) -> None:
    policy, seen = SequencePolicy(MODELS[name]), observations(MODELS[name], 4)
    assert policy.actions(seen[:0]).shape == (0, MODELS[name].card.config.action)
    seen[2, 5] = np.nan
    with pytest.raises(NonFiniteObservation):
        policy.actions(seen)


@every_runtime
@pytest.mark.parametrize("half", [False, True])
def test_the_same_model_file_gives_the_same_numbers(name, runtime, half, tmp_path) -> None:
    model = MODELS[name].in_half_precision() if half else MODELS[name]
    save_model(model, tmp_path / "policy.safetensors")
    loaded = load_model(tmp_path / "policy.safetensors")
    assert (loaded.fingerprint, loaded.half) == (model.fingerprint, half)
    one, other = load_policy(model, runtime), load_policy(tmp_path / "policy.safetensors", runtime)
    for row in observations(model, 20):
        np.testing.assert_array_equal(one.step(row), other.step(row))
