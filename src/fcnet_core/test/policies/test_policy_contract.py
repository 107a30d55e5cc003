"""What every registered policy does in every form; a new folder under policies/ is held to it without a change here.

The reference is the torch network in float64. The forms are its whole sequence, its parts, its steps, and the runtimes.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from msgspec import structs, to_builtins
from policy_forms import check_refused, forms_of, parallel, stepped, untrained, with_units

from fcnet_core.arrays import ArraySpec
from fcnet_core.errors import FcnetError, NonFiniteObservation
from fcnet_core.files import converted
from fcnet_core.learning.config import EXAMPLE, example_config
from fcnet_core.model_file import PolicyModel, load_model, save_model
from fcnet_core.observation import Input, vector_interface
from fcnet_core.observation.terms import LastAction
from fcnet_core.policies import policy_type, policy_type_names
from fcnet_core.policies.network import advanced, load_network
from fcnet_core.policy import load_policy

BATCH = 4
EXACT = 1e-9  # between forms of the network in float64
TOLERANCE = 2e-6  # [rad] between float32 and the reference
STEPS = 150


@cache
def model_of(name: str, window_policy: str = "sliding") -> PolicyModel:
    """An untrained policy of the type with two layers, and with units like those of real data."""
    kind = policy_type(name).config
    sizes = {"layers": 2} if "layers" in kind.__struct_fields__ else {}
    model = with_units(untrained(example_config(kind, **sizes), seed=5))
    return replace(model, card=structs.replace(model.card, window_policy=window_policy))


def observations(model: PolicyModel, steps: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((steps, model.card.config.observation))
    return (model.scales["observation_mean"] + 2 * model.scales["observation_std"] * noise).astype(np.float32)


def reference(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    """The actions of the network in float64, over a whole sequence; it knows no resets."""
    return model.normalisation.action(parallel(model, model.normalisation.input(seen)))


NAMES = policy_type_names()
every_policy = pytest.mark.parametrize("name", NAMES)
every_runtime = pytest.mark.parametrize(("name", "runtime"), [(n, r) for n in NAMES for r in policy_type(n).runtimes])
every_memory_rule = pytest.mark.parametrize("window_policy", ["sliding", "reset_every_n"])
every_form = pytest.mark.parametrize(
    ("name", "form"), [pytest.param(n, form, id=f"{n}-{key}") for n in NAMES for key, form in forms_of(n).items()]
)


BIPED = structs.replace(EXAMPLE, joints=tuple(f"joint_{i}" for i in range(8)), default_pose=0.0, kp=0.0, kd=0.0)
VECTOR = vector_interface({"observation": ArraySpec((5,))}, 2)


@every_policy
@pytest.mark.parametrize("interface", [BIPED, VECTOR])
@torch.no_grad()
def test_the_sizes_follow_from_any_interface(name, interface) -> None:
    kind = policy_type(name)
    if interface is VECTOR and name == "starformer":  # it has a token of the last action
        terms = (*VECTOR.inputs["observation"].terms, LastAction(of="output"))
        interface = structs.replace(VECTOR, inputs={"observation": Input(terms=terms)})
    config = converted(to_builtins(kind.config.defaults(interface, {})), kind.config)
    assert (config.observation_spec["observation"].shape,) == tuple(interface.shapes.values())
    network = kind.part(kind.network)(config).double()
    seen = torch.randn(1, 3, config.observation, dtype=torch.float64)
    state = network.cold(1)
    for step in range(3):
        output, written = network.step(seen[:, step], state)
        state = advanced(state, written)
    torch.testing.assert_close(output, network(seen)[0][:, -1], atol=EXACT, rtol=0)
    assert output.shape == (1, interface.values)


@every_policy
@torch.no_grad()
def test_the_network_gives_the_same_for_a_whole_sequence_its_parts_and_its_steps(name) -> None:
    """So the future does not change the present."""
    model = model_of(name)
    network, window = load_network(model).double(), model.card.config.window
    seen = torch.from_numpy(observations(model, 2 * STEPS)).double().unflatten(0, (2, STEPS))
    whole, _ = network(seen)
    for sizes in ((1, 2, 40, STEPS - 43), (window + 3, STEPS - window - 3)):
        state, parts = None, []
        for part in seen.split(sizes, dim=1):
            output, state = network(part, state)
            parts.append(output)
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=EXACT, rtol=0)
    stepping, (_, later) = network.cold(2), network(seen[:, :50])
    for step in range(STEPS):
        if step >= 50:  # the memory of a sequence and that of steps are one
            output, written = network.step(seen[:, step], later)
            torch.testing.assert_close(output, whole[:, step], atol=EXACT, rtol=0)
            later = advanced(later, written)
        output, written = network.step(seen[:, step], stepping)
        torch.testing.assert_close(output, whole[:, step], atol=EXACT, rtol=0)
        stepping = advanced(stepping, written)
    assert {key: value.shape for key, value in later.items()} == {key: v.shape for key, v in network.cold(2).items()}


@every_form
def test_every_form_gives_what_the_network_gives_in_full_and_in_half_precision(name, form) -> None:
    model = model_of(name)
    half, seen = model.in_half_precision(), observations(model, 300)
    full, rounded = form(model, seen), form(half, seen)
    np.testing.assert_allclose(full, reference(model, seen), atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(rounded, reference(half, seen), atol=TOLERANCE, rtol=0)
    assert 0 < np.abs(rounded - full).max() < 3e-3


@every_form
def test_reset_every_n_forgets_after_each_interval(name, form) -> None:
    model, resetting = model_of(name), model_of(name, "reset_every_n")
    interval = model.card.config.window
    seen = observations(model, 2 * interval + 5)
    expected = [reference(model, part) for part in np.split(seen, range(interval, len(seen), interval))]
    np.testing.assert_allclose(form(resetting, seen), np.concatenate(expected), atol=TOLERANCE, rtol=0)


@every_policy
def test_what_is_older_than_the_memory_leaves_no_trace(name) -> None:
    model = model_of(name)
    if not np.isfinite(model.card.memory):
        pytest.skip("remembers without end")
    memory = int(model.card.memory)
    old, recent = observations(model, 20, seed=1), observations(model, memory + 3)
    for form in forms_of(name).values():
        cold, warm = form(model, recent), form(model, np.concatenate([old, recent]))[20:]
        assert np.abs(cold[0] - warm[0]).max() > 1e-3
        np.testing.assert_allclose(cold[memory:], warm[memory:], atol=TOLERANCE, rtol=0)


@every_runtime
@every_memory_rule
def test_a_batch_equals_single_robots_that_are_reset_at_different_times(name, runtime, window_policy) -> None:
    model = model_of(name, window_policy)
    batch, singles = load_policy(model, runtime, BATCH), [load_policy(model, runtime) for _ in range(BATCH)]
    resets = np.random.default_rng(4).random((90, BATCH)) < 0.05
    for seen, mask in zip(observations(model, 90 * BATCH).reshape(90, BATCH, -1), resets, strict=True):
        batch.reset(mask)
        for robot in np.flatnonzero(mask):
            singles[robot].reset()
        expected = [one.step(row) for one, row in zip(singles, seen, strict=True)]
        np.testing.assert_allclose(batch.step(seen), expected, atol=TOLERANCE, rtol=0)


@every_runtime
@every_memory_rule
def test_copies_and_batches_that_get_its_state_continue_as_a_policy(name, runtime, window_policy) -> None:
    model = model_of(name, window_policy)
    policy, batch = load_policy(model, runtime), load_policy(model, runtime, BATCH)
    seen = observations(model, 2 * model.card.config.window + 20)
    for row in seen[:15]:
        policy(row)
    trial = policy.copy()
    batch.state = {key: np.repeat(array, BATCH, axis=0) for key, array in policy.state.items()}
    actions = [policy(row) for row in seen[15:]]
    np.testing.assert_array_equal([trial(row) for row in seen[15:]], actions)
    for row, action in zip(seen[15:], actions, strict=True):
        np.testing.assert_allclose(batch(np.tile(row, (BATCH, 1))), [action] * BATCH, atol=TOLERANCE, rtol=0)
    with pytest.raises(FcnetError):
        policy.state = batch.state


@every_runtime
@every_memory_rule
@pytest.mark.parametrize(("batch", "place", "named"), [(None, 4, "4"), (BATCH, (2, 7), r"\[2, 7\]")])
def test_a_bad_observation_is_refused_and_leaves_no_trace(name, runtime, window_policy, batch, place, named) -> None:
    model = model_of(name, window_policy)
    untouched, policy = (load_policy(model, runtime, batch) for _ in range(2))
    for seen in observations(model, model.card.config.window + 3):
        rows = seen if batch is None else seen * np.linspace(0.5, 1.0, batch, dtype=np.float32)[:, None]
        for bad in (np.nan, np.inf, -np.inf, 1e39):
            poisoned = rows.astype(np.float64)
            poisoned[place] = bad
            with pytest.raises(NonFiniteObservation, match=named):
                policy.step(poisoned)
        np.testing.assert_array_equal(policy.step(rows), untouched.step(rows))


@every_runtime
def test_observations_of_any_size_and_actions_are_checked_and_owned_and_a_reset_is_a_cold_start(name, runtime) -> None:
    model = model_of(name)
    policy = load_policy(model, runtime)
    with pytest.raises(ValueError, match="shape"):
        policy.step(np.zeros(12, dtype=np.float32))
    first, second = observations(model, 2)
    action = policy.step(first)
    copy = action.copy()
    policy.step(second)
    np.testing.assert_array_equal(action, copy)
    for row in observations(model, 40):
        policy.step(row)
    policy.reset()
    np.testing.assert_array_equal(policy.step(first), copy)
    huge = np.full(model.card.config.observation, np.finfo(np.float32).max)
    assert np.isfinite(policy.step(huge)).all() and np.isfinite(policy.step(-huge)).all()


@every_policy
@pytest.mark.parametrize("half", [False, True])
def test_the_same_model_file_gives_the_same_numbers(name, half, tmp_path) -> None:
    model = model_of(name).in_half_precision() if half else model_of(name)
    save_model(model, tmp_path / "policy.safetensors")
    loaded = load_model(tmp_path / "policy.safetensors")
    assert (loaded.fingerprint, loaded.half, loaded.card.format_version) == (model.fingerprint, half, 2)
    for runtime in policy_type(name).runtimes:
        seen = observations(model, 20)
        np.testing.assert_array_equal(stepped(loaded, runtime, seen), stepped(model, runtime, seen))


@pytest.mark.parametrize(
    ("name", "sizes", "named"),
    [
        *((name, {"heads": 3}, "3 heads") for name in ("body_transformer", "starformer", "transformer")),
        ("retnet", {"heads": 3}, "hidden is 128, with heads 3 it must be a multiple of 6"),
        ("retnet", {"hidden": 36}, "hidden is 36, with heads 4 it must be a multiple of 8"),  # keys of 9 entries
        ("retnet", {"value_width": 130}, "value_width is 130, with heads 4 it must be a multiple of 4"),
        ("retnet", {"heads": 16}, "heads is 16"),
        ("retnet", {"ffn_width": -1}, "ffn_width is -1"),
        ("retnet", {"modes": 10}, "modes"),
        ("fcnet", {"layers": 0}, "layers is 0"),
        ("fcnet", {"modes": True}, "modes is True"),
        ("fcnet", {"modes": 33}, "33 modes"),
        ("starformer", {"token_heads": 5}, r"token_width .16. cannot be divided among 5 heads"),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_a_sentence(name, sizes, named) -> None:
    check_refused(name, sizes, named)
