"""Export of a policy's step to ONNX, by torch, for exported_step.py, and of its `forward` if its type asks for it.

A graph depends on the configuration only: weights and scales are inputs while it is made and become initializers
without data. So one export serves every policy of a configuration; it takes 5 to 9 s and is cached.
"""

import hashlib
import logging
import os
import warnings
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call

from fcnet_core.errors import FcnetError
from fcnet_core.files import write_whole
from fcnet_core.model_file import PolicyCard, PolicyModel
from fcnet_core.observation import vector_interface
from fcnet_core.policies import PolicyConfig, policy_type, policy_type_of
from fcnet_core.policies.exported_step import CLIP, NEXT, ExportedStep, packed
from fcnet_core.policies.network import PolicyNetwork, State, advanced
from fcnet_core.policies.normalisation import scale_shapes

OPSET = 20
CHECKED_STEPS, CHECKED_BATCHES = 64, (1, 3)
TOLERANCE = 1e-5  # of the largest difference, relative for actions above 1
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fcnet" / "steps"
Tensors = dict[str, Tensor]


class ScaledStep(nn.Module):
    """A network's step from raw observations by name to actions (B, action), with the scales as buffers.

    If `whole`, the network's `forward` instead, from sequences (B, T, ...) to actions (B, T, action).
    """

    def __init__(self, network: PolicyNetwork, config: PolicyConfig) -> None:
        super().__init__()
        self.network = network
        for name, shape in scale_shapes(config.observation_spec, config.action).items():
            self.register_buffer(name, torch.ones(shape))
        self.register_buffer(CLIP, torch.ones(()))

    def forward(self, observation: Tensors, state: State, whole: bool = False) -> tuple[Tensor, State]:
        scaled = {name: self._scaled(name, array) for name, array in observation.items()}
        inputs: Any = scaled if len(scaled) > 1 else next(iter(scaled.values()))
        output, written = (self.network if whole else self.network.step)(inputs, state)
        return self.get_buffer("action_mean") + self.get_buffer("action_scale") * output, written

    def _scaled(self, name: str, array: Tensor) -> Tensor:
        if f"{name}_mean" not in self._buffers:
            return array
        clip = self.get_buffer(CLIP)
        scaled = (array - self.get_buffer(f"{name}_mean")) / self.get_buffer(f"{name}_std")
        return torch.minimum(torch.maximum(scaled, -clip), clip)


class _Functional(nn.Module):
    """A step whose weights and scales are arguments, so that the exporter cannot fold them into constants."""

    def __init__(self, step: ScaledStep, whole: bool) -> None:
        super().__init__()
        self._step, self._whole = (step,), whole  # the step is not a submodule

    def forward(self, observation: Tensors, state: State, arrays: Tensors) -> tuple[Tensor, ...]:
        action, written = functional_call(self._step[0], arrays, (observation, state, self._whole))
        return action, *(written[name] for name in state)


@cache
def exported_step(config: PolicyConfig) -> bytes:
    """Return the packed graphs of a configuration, from the cache if they are there.

    Raises FcnetError if ONNX Runtime computes other actions than the network.
    """
    path = CACHE / _digest(config)
    if path.is_file():
        return path.read_bytes()
    step = _exported(config)
    with suppress(OSError):
        write_whole(path, step)
    return step


def _digest(config: PolicyConfig) -> str:
    """Return a digest of everything on which the graph depends."""
    name = policy_type_of(config)
    folders = {Path(__file__).parent, Path(str(import_module(policy_type(name).package).__file__)).parent}
    digest = hashlib.sha256(f"{torch.__version__} {name} ".encode() + msgspec.json.encode(config))
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _exported(config: PolicyConfig) -> bytes:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        kind = policy_type(policy_type_of(config))
        step = ScaledStep(kind.part(kind.network)(config), config).eval()
        for tensor in step.state_dict().values():  # also zeros and ones must matter
            tensor += 0.05 * torch.randn(tensor.shape)
        graphs = [_graph(step, config, whole) for whole in ((False, True) if kind.exports_sequences else (False,))]
        exported = b"".join(map(packed, graphs))
        _check(exported, step, config)
    return exported


def _random_inputs(step: ScaledStep, config: PolicyConfig, *lead: int) -> tuple[Tensors, State]:
    """Return observations (*lead, ...), and a memory of lead[0] robots."""
    observation = {}
    for name, spec in config.observation_spec.items():
        shape, whole = (*lead, *spec.shape), spec.dtype != "float32"
        observation[name] = torch.randint(255, shape).to(getattr(torch, spec.dtype)) if whole else torch.randn(shape)
    state = step.network.cold(lead[0])
    for name, array in state.items():
        state[name] = torch.randn_like(array) if array.is_floating_point() else torch.randint_like(array, 100)
    return observation, state


def _graph(step: ScaledStep, config: PolicyConfig, whole: bool) -> bytes:
    """Return the graph, whose initializers of weights and scales have names and shapes but no data."""
    observation, state = _random_inputs(step, config, 2, *(2 * config.window,) * whole)
    arrays = dict(step.state_dict())
    names = {name: name.removeprefix("network.") for name in arrays}
    batch = torch.export.Dim("batch")
    leading = {0: batch} | ({1: torch.export.Dim("steps", min=config.window)} if whole else {})
    rings = {name: {int(_is_ring(step, name)): batch} for name in state}
    axes = (dict.fromkeys(observation, leading), rings, dict.fromkeys(arrays))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = (observation, state, arrays)
        exported = torch.export.export(_Functional(step, whole), inputs, dynamic_shapes=axes, strict=False)
        program = torch.onnx.export(
            exported,
            dynamo=True,
            verbose=False,
            input_names=[*observation, *state, *names.values()],
            output_names=["action", *(NEXT + name for name in state)],
            opset_version=OPSET,
        )
    assert program is not None
    return _without_data(program.model_proto, set(names.values()))


def _is_ring(step: ScaledStep, name: str) -> bool:
    """Return whether an entry of the memory has its robots along axis 1."""
    one, two = (step.network.cold(batch)[name].shape for batch in (1, 2))
    return one[0] == two[0]


def _without_data(proto: Any, names: set[str]) -> bytes:
    """Make the inputs `names` of a graph external initializers, and leave out the exporter's notes."""
    from onnx import TensorProto

    graph = proto.graph
    for value in [value for value in graph.input if value.name in names]:
        graph.input.remove(value)
        tensor = graph.initializer.add(name=value.name, data_type=value.type.tensor_type.elem_type)
        tensor.dims.extend(axis.dim_value for axis in value.type.tensor_type.shape.dim)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="model file")
    for message in (proto, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        message.ClearField("doc_string")
        message.ClearField("metadata_props")
    for node in graph.node:
        node.ClearField("name")
    graph.ClearField("value_info")
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def _check(step: bytes, expected: ScaledStep, config: PolicyConfig) -> None:
    """Raise FcnetError unless the graphs compute the actions of the network, from random memories."""
    arrays = {name.removeprefix("network."): tensor.numpy() for name, tensor in expected.state_dict().items()}
    scales = {name: arrays.pop(name) for name in scale_shapes(config.observation_spec, config.action)}
    card = PolicyCard(
        interface=vector_interface(config.observation_spec, config.action),
        policy_type=policy_type_of(config),
        config=config,
        window_policy="sliding",
        observation_clip=float(arrays.pop(CLIP)),
    )
    model = PolicyModel(card, arrays, scales, step)

    def compare(found: npt.NDArray[Any], reference: Tensor) -> None:
        difference = np.abs(found - reference.numpy()) / np.maximum(1.0, np.abs(reference.numpy()))
        if not difference.max() <= TOLERANCE:
            reason = f"differs from its network by {difference.max():.1e}, allowed are {TOLERANCE:.0e}"
            raise FcnetError(f"the exported step of a {card.policy_type} policy {reason}; please report this")

    for batch in CHECKED_BATCHES:
        runtime = ExportedStep(model, batch)
        _, state = _random_inputs(expected, config, batch)
        rings = {name for name in state if _is_ring(expected, name)}
        runtime.restore({name: array.numpy().swapaxes(0, int(name in rings)) for name, array in state.items()})
        for _ in range(CHECKED_STEPS):
            observation, _ = _random_inputs(expected, config, batch)
            action, written = expected(observation, state)
            state = advanced(state, written)
            compare(runtime.step({name: array.numpy() for name, array in observation.items()}), action)
    if policy_type(card.policy_type).exports_sequences:
        runtime, state = ExportedStep(model), expected.network.cold(1)
        for _ in range(2):  # with an empty memory, then with a filled one; the last three steps one by one
            observation, _ = _random_inputs(expected, config, 1, 2 * config.window + 3)
            action, state = expected(observation, state, True)
            compare(runtime.sequence(*(array[0].numpy() for array in observation.values())), action[0])
