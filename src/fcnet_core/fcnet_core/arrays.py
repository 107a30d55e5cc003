"""Arrays: the names of their types, and what the named arrays of a control step look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

Array = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]
Floats = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]  # indices
Bytes = npt.NDArray[np.uint8]
Observation = npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]  # the array itself where a policy sees but one


class ArraySpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One named array of a control step: its shape and type, and names of consecutive entries of a vector.

    Arrays of float32 are normalised before a network sees them; images of uint8 are passed as they are.
    """

    shape: tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...]
    dtype: Literal["float32", "uint8", "bool"] = "float32"
    parts: dict[str, Annotated[int, Meta(ge=1)]] = {}

    def __post_init__(self) -> None:
        if self.parts and self.shape != (total := sum(self.parts.values()),):
            raise ValueError(f"its parts have {total} entries, its shape is {list(self.shape)}")

    def slices(self) -> dict[str, slice]:
        """Where each of the named parts is in the vector."""
        ends = {}
        start = 0
        for name, size in self.parts.items():
            ends[name] = slice(start, start + size)
            start += size
        return ends


Spec = Mapping[str, ArraySpec]
