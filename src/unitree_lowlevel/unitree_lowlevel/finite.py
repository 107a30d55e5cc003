"""Numbers that motors and safety can work with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unitree_lowlevel.wire_error import WireError


def require_finite(what: str, *values: npt.NDArray[Any]) -> None:
    """Raise WireError "not_finite" where one of these is NaN or infinite; `what` opens the sentence."""
    if not np.isfinite(np.concatenate(values)).all():
        raise WireError("not_finite", f"{what} that is not a finite number")
