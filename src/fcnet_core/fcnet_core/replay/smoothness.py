"""How smooth a sequence of joint targets is: its jerk, its spectrum, and what of it a leg cannot follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.quantities import root_mean_square

Array = npt.NDArray[np.float64]
HIGH_FREQUENCY = 8.0  # [Hz] a stride has 2 to 3, its harmonics that matter stay below this
SEGMENT = 128  # samples of one spectrum: 2.6 s at 50 Hz


def smoothness(targets: Array, cold: npt.NDArray[np.bool_], period: float) -> dict[str, Any]:
    """Figures of targets (K, 12) [rad] sent every `period` [s]; nothing is taken across a cold start."""
    parts = [part for part in np.split(targets, np.flatnonzero(cold)) if len(part) > 3]
    jerk = [np.diff(part, n=3, axis=0) / period**3 for part in parts]
    frequency, power = spectrum(targets, cold, period)
    moving = power[frequency > 0].sum(axis=0)
    high = power[frequency > HIGH_FREQUENCY].sum(axis=0)
    share = np.divide(high, moving, out=np.zeros_like(high), where=moving > 0)
    return {
        "jerk_rms_rad_s3": root_mean_square(np.concatenate(jerk)) if jerk else None,
        "high_frequency_share": float(share.mean()) if (moving > 0).any() else None,
        "high_frequency_hz": HIGH_FREQUENCY,
    }


def spectrum(targets: Array, cold: npt.NDArray[np.bool_], period: float) -> tuple[Array, Array]:
    """Frequencies (F,) [Hz] and mean power (F, 12) [rad^2] of each joint's targets, by Welch's method: Hann windows of
    SEGMENT samples that overlap by half, their means taken off.
    """
    frequency: Array = np.fft.rfftfreq(SEGMENT, period).astype(np.float64)
    window = np.hanning(SEGMENT)[:, None]
    total, count = np.zeros((len(frequency), targets.shape[1])), 0
    for part in np.split(targets, np.flatnonzero(cold)):
        for start in range(0, len(part) - SEGMENT + 1, SEGMENT // 2):
            piece = part[start : start + SEGMENT]
            total += np.square(np.abs(np.fft.rfft((piece - piece.mean(axis=0)) * window, axis=0)))
            count += 1
    power: Array = total * 2.0 / (max(count, 1) * float(np.square(window.sum())))
    return frequency, power
