"""How a run tells of itself: a bar for people on stderr, or JSON lines for machines on stdout."""

from __future__ import annotations

import json
from dataclasses import asdict

from tqdm import tqdm

from fcnet_core.training.trainer import Progress


class ProgressBar:
    """A live line with loss and held-out error."""

    def __init__(self, step: int, steps: int) -> None:
        self._bar = tqdm(initial=step, total=steps, unit="step", desc="training", dynamic_ncols=True, mininterval=0.5)

    def __call__(self, progress: Progress) -> None:
        held_out = "" if progress.held_out_error is None else f", held-out error {progress.held_out_error:.4f} rad"
        self._bar.set_postfix_str(f"loss {progress.loss:.4f}{held_out}", refresh=False)
        self._bar.update(progress.step - self._bar.n)

    def close(self) -> None:
        """Leave the last line on the screen."""
        self._bar.close()


class JsonLines:
    """One object per report, with the names of Progress."""

    def __call__(self, progress: Progress) -> None:
        print(json.dumps(asdict(progress)), flush=True)

    def close(self) -> None:
        """Nothing is left open."""
