"""How a report describes a set of numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]


def spread(values: Array) -> dict[str, float | None]:
    """Median, 95th and 99th percentile and largest of the finite values; None where there are none."""
    known = values[np.isfinite(values)]
    if not known.size:
        return dict.fromkeys(("p50", "p95", "p99", "max"))
    p50, p95, p99 = np.percentile(known, (50, 95, 99))
    return {"p50": float(p50), "p95": float(p95), "p99": float(p99), "max": float(known.max())}


def root_mean_square(values: Array) -> float | None:
    """Root mean square of the finite values; None where there are none."""
    known = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(np.square(known)))) if known.size else None
