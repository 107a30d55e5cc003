"""How far the targets that a controller sends are from those that were recorded, step by step as they come."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES

Array = npt.NDArray[np.float64]
THINKING_TIME = 200_000  # [ns] an answer sooner after a state than this was to the state before
MEMORY = 8  # steps for which an answer is still awaited


class PlaybackComparison:
    """Matches answers with the step that was the newest when the controller began to think about it.

    Times are nanoseconds of one clock. Any thread may call any method.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._awaited: deque[_Step] = deque(maxlen=MEMORY)
        self._squares: Array = np.zeros(len(JOINT_NAMES))
        self._largest: Array = np.zeros(len(JOINT_NAMES))
        self._compared = 0
        self._answers = 0
        self._played = 0
        self._repeated = 0
        self._damped = 0

    def played(self, target: Array, stamp: int) -> None:
        """A step with the recorded targets (12,) [rad], NaN where unknown, was published at `stamp`."""
        with self._lock:
            if len(self._awaited) == MEMORY:
                self._settle(self._awaited.popleft())
            self._awaited.append(_Step(target, stamp))
            self._played += 1

    def answered(self, target: Array | None, stamp: int) -> None:
        """The controller sent position targets (12,) [rad], or None for damping, at `stamp`."""
        with self._lock:
            if target is None:
                self._damped += 1
                return
            self._answers += 1
            for step in reversed(self._awaited):
                if step.stamp <= stamp - THINKING_TIME:
                    self._repeated += step.answer is not None
                    step.answer = target
                    self._lock.notify_all()
                    return

    @property
    def answers(self) -> int:
        """How many position targets have come."""
        return self._answers

    def wait_for_answer(self, patience: float) -> bool:
        """Wait until the step played last is answered, but not longer than `patience` [s]; whether it is."""
        with self._lock:
            newest = self._awaited[-1] if self._awaited else None
            return newest is None or self._lock.wait_for(lambda: newest.answer is not None, patience)

    def finish(self) -> None:
        """Count the steps for which answers were still awaited."""
        with self._lock:
            while self._awaited:
                self._settle(self._awaited.popleft())

    def summary(self) -> dict[str, Any]:
        """Figures so far, numbers and names alone: of the steps played, how many were answered and how well."""
        with self._lock:
            known = self._compared > 0
            rmse = np.sqrt(self._squares / max(self._compared, 1))
            return {
                "steps": self._played,
                "compared": self._compared,
                "repeated_answers": self._repeated,
                "damping_answers": self._damped,
                "rmse_rad": _by_joint(rmse) if known else None,
                "largest_rad": _by_joint(self._largest) if known else None,
                "rmse_all_rad": float(np.sqrt(np.mean(rmse**2))) if known else None,
            }

    def _settle(self, step: _Step) -> None:
        if step.answer is None or not np.isfinite(step.target).all():
            return
        error = np.abs(step.answer - step.target)
        self._squares += error**2
        self._largest = np.maximum(self._largest, error)
        self._compared += 1


class _Step:
    def __init__(self, target: Array, stamp: int) -> None:
        self.target = target
        self.stamp = stamp
        self.answer: Array | None = None


def summary_text(summary: dict[str, Any]) -> str:
    """A summary for a terminal."""
    lines = [
        f"{summary['compared']} of {summary['steps']} steps compared with the recorded targets, "
        f"{summary['repeated_answers']} answered more than once"
    ]
    if summary["rmse_rad"] is not None:
        lines.append(f"RMSE over all joints {summary['rmse_all_rad']:.4f} rad")
        lines.append(f"{'joint':16}{'RMSE':>10}{'largest':>10}  [rad]")
        lines += [
            f"{joint:16}{rmse:10.4f}{summary['largest_rad'][joint]:10.4f}"
            for joint, rmse in summary["rmse_rad"].items()
        ]
    return "\n".join(lines)


def _by_joint(values: Array) -> dict[str, float]:
    return dict(zip(JOINT_NAMES, values.tolist(), strict=True))
