"""The exported step of a policy: an ONNX graph without weights, in a model file, run by ONNX Runtime without torch.

The graph takes raw observations (B, ...) and the memory, and returns actions (B, action) and what is written to the
memory: for an input NAME the output next_NAME. If their shapes are equal, the output replaces the input. Otherwise the
input is a ring (N, B, ...) of past rows, oldest first, and the output is the row that follows.
A second graph for whole sequences may follow it: from observations (B, T, ...), at least as many as the window, to
actions (B, T, action) and the new memory.
Weights and scales are bound by their names in the model file. export.py makes the graphs.
"""

from __future__ import annotations

import copy
import math
import os
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read at the import: no device ID in the home folder, nothing sent
import onnxruntime

from fcnet_core.arrays import Mask, Observation, Single
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}
LARGEST_GRAPH = 2**26  # [bytes]
LONGEST = 2**10  # steps of a sequence at once, which bounds the memory that they need
LARGEST_MEMORY = 2**24  # numbers of one entry and robot
CLIP = "observation_clip"  # the card's, bound like a weight
NEXT = "next_"
Anything = npt.NDArray[Any]


def packed(graph: bytes) -> bytes:
    """Compress a graph as it lies in a model file."""
    return zlib.compress(graph, 9)


def unpacked(step: bytes) -> list[bytes]:
    """Return the ONNX graph of a model's step, then that of sequences if there is one. Raises FcnetError if one is
    damaged.
    """
    graphs: list[bytes] = []
    while len(graphs) < 2 and (step or not graphs):
        reader = zlib.decompressobj()
        try:
            graphs.append(reader.decompress(step, LARGEST_GRAPH))
        except zlib.error as error:
            raise FcnetError(f"the policy's step is damaged ({error}); copy the file or export it again") from error
        if not reader.eof:
            raise FcnetError("the policy's step is cut off or too large; copy the file or export it again")
        step = reader.unused_data
    return graphs


def bound_arrays(model: PolicyModel) -> dict[str, Single]:
    """Return the arrays that a graph lacks, by name, float32."""
    arrays = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in model.tensors.items()}
    return arrays | {CLIP: np.array(model.card.observation_clip, dtype=np.float32)}


def _memory(session: Any, observed: list[str]) -> dict[str, tuple[int, tuple[int, ...], npt.DTypeLike]]:
    """Return the rows of each entry of the memory, 0 if it is replaced, its shape for one robot and its type.

    The graph may come from a stranger. Raises FcnetError if its inputs and outputs are not those of a step.
    """
    memory: dict[str, tuple[int, tuple[int, ...], npt.DTypeLike]] = {}
    for entry in session.get_inputs():
        if entry.name in observed:
            continue
        is_ring = bool(entry.shape) and isinstance(entry.shape[0], int)
        rows, sizes = (entry.shape[0], entry.shape[2:]) if is_ring else (0, entry.shape[1:])
        if entry.type not in TYPES or not all(isinstance(size, int) for size in sizes):
            raise FcnetError(f"the policy's step has a memory {entry.name} of unknown type or size; export it again")
        if math.prod((max(rows, 1), *sizes)) > LARGEST_MEMORY:
            raise FcnetError(f"the policy's step has a memory {entry.name} of {entry.shape}, too much for a robot")
        memory[entry.name] = rows, tuple(sizes), TYPES[entry.type]
    found = {entry.name for entry in (*session.get_inputs(), *session.get_outputs())}
    if odd := sorted(found ^ {"action", *observed, *memory, *(NEXT + name for name in memory)}):
        raise FcnetError(f"the policy's step lacks or has an unknown input or output {odd[0]}; export it again")
    return memory


class Ring:
    """The last N rows of B robots, zero after a reset. Each is stored twice, so the rows are always in one piece."""

    def __init__(self, rows: int, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._stored: Anything = np.zeros((2 * rows, *shape), dtype)
        self._rows, self._oldest = rows, 0

    @property
    def rows(self) -> Anything:
        """The rows (N, B, ...), oldest first; not a copy."""
        return self._stored[self._oldest : self._oldest + self._rows]

    def push(self, row: Anything) -> None:
        """Replace the oldest row by (B, ...)."""
        self._stored[self._oldest] = self._stored[self._oldest + self._rows] = row
        self._oldest = (self._oldest + 1) % self._rows

    def reset(self, robots: Mask | slice) -> None:
        """Clear the rows of these robots."""
        self._stored[:, robots] = 0


class ExportedStep:
    """Runtime of any policy with an exported step, for one robot or for `batch`, on one CPU thread."""

    def __init__(self, model: PolicyModel, batch: int | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        arrays = bound_arrays(model)
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
        options.add_external_initializers(list(arrays), values)
        graph, *self._sequence_graph = unpacked(model.step)
        self._options, self._shortest = options, model.card.config.window
        self._bound = arrays, values  # ONNX Runtime refers to them
        self._session = self._opened(graph)
        self._sequences: Any = None  # its session, once it is needed
        self._single, robots = batch is None, batch or 1
        self._observed = list(model.card.config.observation_spec)
        self._replaced: dict[str, Anything] = {}
        self._rings: dict[str, Ring] = {}
        for name, (rows, shape, dtype) in _memory(self._session, self._observed).items():
            if rows:
                self._rings[name] = Ring(rows, (robots, *shape), dtype)
            else:
                self._replaced[name] = np.zeros((robots, *shape), dtype)
        self._outputs = ["action", *(NEXT + name for name in (*self._replaced, *self._rings))]
        try:
            self.step({name: np.zeros((robots, *spec.shape), spec.dtype)[0 if self._single else slice(None)]
                       for name, spec in model.card.config.observation_spec.items()})  # fmt: skip
        except Exception as error:  # as above
            raise FcnetError(f"the policy's step does not fit its card ({error}); export it again") from error
        self.reset()

    def _opened(self, graph: bytes) -> Any:
        try:
            return onnxruntime.InferenceSession(graph, self._options, ["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's errors have no other class in common
            raise FcnetError(f"ONNX Runtime cannot load the policy's step ({error}); export it again") from error

    @property
    def state(self) -> dict[str, Anything]:
        """The memory by name, each array (B, ...); rings (B, N, ...) are oldest first."""
        return self._replaced | {name: ring.rows.swapaxes(0, 1) for name, ring in self._rings.items()}

    def restore(self, state: Mapping[str, Anything]) -> None:
        """Continue from a copy of a `state`."""
        for name, array in self._replaced.items():
            self._replaced[name] = np.array(state[name], array.dtype)
        for name, ring in self._rings.items():
            for row in state[name].swapaxes(0, 1):
                ring.push(row)

    def copy(self) -> ExportedStep:
        """Return a runtime of the same session with a copy of the memory."""
        other = copy.copy(self)
        other._replaced, other._rings = copy.deepcopy((self._replaced, self._rings))
        return other

    def reset(self, mask: Mask | None = None) -> None:
        robots = slice(None) if mask is None else mask
        for array in self._replaced.values():
            array[robots] = 0
        for ring in self._rings.values():
            ring.reset(robots)

    def step(self, observation: Observation) -> Single:
        arrays = observation if isinstance(observation, Mapping) else {self._observed[0]: observation}
        feed = {name: array[None] if self._single else array for name, array in arrays.items()}
        feed.update(self._replaced)
        for name, ring in self._rings.items():
            feed[name] = ring.rows
        action, *written = self._session.run(self._outputs, feed)
        for name, array in zip(self._replaced, written, strict=False):
            self._replaced[name] = array
        for ring, row in zip(self._rings.values(), written[len(self._replaced) :], strict=True):
            ring.push(row)
        result: Single = action[0] if self._single else action
        return result

    def sequence(self, observations: Single) -> Single:
        """Return the actions (T, action) of T steps of one robot: by the graph of sequences, if the file has one, and
        the last steps, fewer than the window, one by one.
        """
        actions, done = [], 0
        while self._sequence_graph and len(observations) - done >= self._shortest:
            part = observations[done : done + LONGEST]
            actions.append(self._whole(part))
            done += len(part)
        actions += [self.step(observation)[None] for observation in observations[done:]]
        return np.concatenate(actions)

    def _whole(self, observations: Single) -> Single:
        """Run the graph of sequences."""
        try:
            if self._sequences is None:
                self._sequences = self._opened(*self._sequence_graph)
            memory = self._replaced | {name: ring.rows for name, ring in self._rings.items()}
            action, *written = self._sequences.run(self._outputs, {self._observed[0]: observations[None]} | memory)
            state = dict(zip(memory, written, strict=True))
            self.restore(state | {name: state[name].swapaxes(0, 1) for name in self._rings})
        except Exception as error:  # as above
            reason = "the policy's graph of sequences does not fit its step"
            raise FcnetError(f"{reason} ({error}); export it again") from error
        result: Single = action[0]
        return result
