"""Names of array types, for the whole package."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]
Floats = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
