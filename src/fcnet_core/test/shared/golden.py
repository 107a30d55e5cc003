"""Files of reference vectors: named arrays, packed so that weights take little space in the repository.

A file is xz-compressed: a line of JSON with name, dtype and shape of each array, then the bytes of all arrays of a
dtype together, first the lowest byte of every number, last the highest, which compresses better by a sixth. Published
weights (w/NAME) and their gradients (grad/NAME) have the names of our networks.
"""

import json
import lzma
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read named arrays of a file."""
    head, _, content = lzma.decompress(path.read_bytes()).partition(b"\n")
    arrays, index = {}, json.loads(head)
    for kind in dict.fromkeys(kind for _, kind, _ in index):
        shapes = {name: shape for name, own, shape in index if own == kind}
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        own, content = np.split(np.frombuffer(content, np.uint8), [sum(sizes) * np.dtype(kind).itemsize])
        numbers = own.reshape(-1, sum(sizes)).T.copy().view(kind).ravel()
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        arrays |= {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
    return {name: arrays[name] for name, _, _ in index}


def named(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays of a group by their names in it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def sampled(whole: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Return the entries of `whole` that a file holds: all, in the same shape, or a flat array of every n-th one, or a
    row of these for each of the parts, such as queries, keys and values, in which it was published.
    """
    if whole.shape == entries.shape:
        return whole
    if entries.ndim == 2:
        return np.stack([sampled(part, row) for part, row in zip(np.split(whole, len(entries)), entries, strict=True)])
    return whole.ravel()[:: round(whole.size / entries.size)]


def check_gradients(network: torch.nn.Module, expected: Mapping[str, np.ndarray], share: float = 2e-5) -> None:
    """Compare the gradients of all parameters with those of a file, within a share of each tensor's largest entry."""
    assert expected.keys() == dict(network.named_parameters()).keys()
    for name, parameter in network.named_parameters():
        published = expected[name]
        assert parameter.grad is not None
        found, limit = sampled(parameter.grad.numpy(), published), share * np.abs(published).max()
        np.testing.assert_allclose(found, published, atol=limit, rtol=0, err_msg=name)
