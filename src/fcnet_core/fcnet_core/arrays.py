"""Types of arrays, and the specification of the named arrays of a control step."""

from collections.abc import Mapping
from itertools import accumulate
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
Observation = npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]  # one array, or arrays by name


class ArraySpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Shape and type of a named array of a control step; parts: names and sizes of consecutive entries of a vector.

    float32 arrays are normalised before they enter a network; uint8 images are not.
    """

    shape: tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...]
    dtype: Literal["float32", "uint8", "int64", "bool"] = "float32"
    parts: dict[str, Annotated[int, Meta(ge=1)]] = {}

    def __post_init__(self) -> None:
        if self.parts and self.shape != (total := sum(self.parts.values()),):
            raise ValueError(f"its parts have {total} entries, its shape is {list(self.shape)}")

    def slices(self) -> dict[str, slice]:
        """Return the place of each part in the vector."""
        ends = accumulate(self.parts.values())
        return {name: slice(end - size, end) for (name, size), end in zip(self.parts.items(), ends, strict=True)}


def part_name(part: str) -> str:
    """Return the name of a part without the number of a repeated one."""
    return part.partition(".")[0]


Spec = Mapping[str, ArraySpec]
