"""The training loop: crops in, optimiser steps out, exactly repeatable and exactly resumable."""

from __future__ import annotations

import io
import json
import math
import pickle
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fcnet_core import FcnetError
from fcnet_core.arrays import Single, Spec
from fcnet_core.files import write_whole
from fcnet_core.learning.config import TrainConfig
from fcnet_core.learning.sampler import Batch, CropSampler
from fcnet_core.policies.normalisation import Normalisation

FORMAT_VERSION = 2


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` (tensors and plain values) to `path`, whole or not at all."""
    buffer = io.BytesIO()
    torch.save({"format_version": FORMAT_VERSION, **content}, buffer)
    try:
        write_whole(path, buffer.getvalue())
    except OSError as error:
        raise FcnetError(
            f"checkpoint {path} could not be written ({error}); make room, then continue with --resume"
        ) from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without running any code it may hold; FcnetError if there is none or it is damaged."""
    if not path.is_file():
        raise FcnetError(f"there is no checkpoint {path} to resume; leave out --resume to start from the beginning")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        version = content.pop("format_version")
    except (OSError, RuntimeError, EOFError, KeyError, AttributeError, pickle.UnpicklingError) as error:
        raise FcnetError(f"checkpoint {path} is damaged ({type(error).__name__}); delete it and start again") from error
    if version != FORMAT_VERSION:
        raise FcnetError(f"checkpoint {path} has format {version}, expected {FORMAT_VERSION}; start again without it")
    return content


HELD_OUT_CROPS = 256
HELD_OUT_BATCH = 32


@dataclass
class Progress:
    """Where a run is: loss is the mean since the report before, in the network's unit; held_out_error the latest root
    mean square error on held-out data [rad], None before the first; seconds the time spent training, without pauses.
    """

    steps: int
    step: int = 0
    loss: float = math.nan
    held_out_error: float | None = None
    learning_rate: float = 0.0
    seconds: float = 0.0


class Trainer:
    """Trains `network` in place. The run is defined by config, data and normalisation; `progress` says how far it is.

    arrays: what a step of the data has, of which the network sees those that its configuration names.
    """

    def __init__(
        self,
        network: nn.Module,
        config: TrainConfig,
        crops: CropSampler,
        normalisation: Normalisation,
        arrays: Spec,
    ) -> None:
        torch.set_num_threads(config.threads)
        self.network = network
        self.config = config
        self.crops = crops
        self.normalisation = normalisation
        self.progress = Progress(config.total_steps(crops.training_steps))
        self._losses: list[float] = []  # since the last report
        self._rng = np.random.default_rng([config.seed, 0])
        self._seen = config.policy_config.observation_spec
        self._noise = noise_by_entry(config.observation_noise, {name: arrays[name] for name in self._seen})
        self._optimiser = torch.optim.Adam(
            network.parameters(), lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True
        )

    def run(self, report: Callable[[Progress], None], stop: Callable[[], bool], checkpoint: Path | None = None) -> bool:
        """Train to the end, or until `stop` says so after a step; then the checkpoint is written. Whether it ended."""
        config, progress = self.config, self.progress
        stopped = False
        while progress.step < progress.steps and not stopped:
            began = time.perf_counter()
            self._losses.append(self.optimise())
            last = progress.step == progress.steps
            if last or progress.step % config.validation_interval == 0:
                progress.held_out_error = self.validate()
            if not math.isfinite(self._losses[-1] + (progress.held_out_error or 0.0)):
                self._refuse_divergence(checkpoint)
            progress.seconds += time.perf_counter() - began
            if last or progress.step % config.log_interval == 0:
                progress.loss = float(np.mean(self._losses))
                self._losses.clear()
                report(replace(progress))
            stopped = stop() and not last
            if checkpoint and (stopped or last or progress.step % config.checkpoint_interval == 0):
                self.save(checkpoint)
        return not stopped

    def optimise(self) -> float:
        """One optimiser step on freshly drawn crops; returns its loss."""
        batch = self.crops.draw(self._rng, self.config.batch)
        observation, wanted, counts = self._tensors(batch, noisy=True)
        loss = masked_loss(self.network(observation), wanted, counts, self.config.loss)
        self._optimiser.zero_grad()
        loss.backward()
        if self.config.gradient_clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip)
        self.progress.learning_rate = self.learning_rate(self.progress.step)
        for group in self._optimiser.param_groups:
            group["lr"] = self.progress.learning_rate
        self._optimiser.step()
        self.progress.step += 1
        return loss.item()

    def learning_rate(self, step: int) -> float:
        """Linear warm-up, then half a cosine to zero, as get_cosine_schedule_with_warmup."""
        steps, highest = self.progress.steps, self.config.learning_rate
        warm = self.config.warmup * steps
        if step < warm:
            return highest * (step + 1) / (warm + 1)
        return highest * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))

    def validate(self) -> float | None:
        """Root mean square error [rad] on held-out crops without noise; None when nothing is held out."""
        scale = torch.from_numpy(self.normalisation.scales["action_scale"])
        error, count = 0.0, 0.0
        with torch.no_grad():
            for batch in self.crops.held_out(HELD_OUT_CROPS, HELD_OUT_BATCH, self.config.seed):
                observation, wanted, counts = self._tensors(batch, noisy=False)
                square = ((self.network(observation) - wanted) * scale).square().mean(-1)
                error += (square * counts).sum().item()
                count += counts.sum().item()
        return math.sqrt(error / count) if count else None

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        content = {
            "run": self._run(),
            "progress": asdict(self.progress),
            "losses": self._losses,
            "rng": json.dumps(self._rng.bit_generator.state),
            "network": self.network.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }
        save_checkpoint(path, content)

    def restore(self, path: Path) -> None:
        """Continue from a checkpoint; FcnetError if it belongs to a run that differs in anything."""
        content = load_checkpoint(path)
        saved = json.loads(content["run"])
        for name, value in json.loads(self._run()).items():
            if saved.get(name) != value:
                raise FcnetError(
                    f"checkpoint {path} was made with another {name}; resume with the settings and data of its run,"
                    " or start again without --resume"
                )
        self.network.load_state_dict(content["network"])
        self._optimiser.load_state_dict(content["optimiser"])
        self._rng.bit_generator.state = json.loads(content["rng"])
        self.progress, self._losses = Progress(**content["progress"]), content["losses"]

    def _tensors(self, batch: Batch, noisy: bool) -> tuple[Any, Tensor, Tensor]:
        """What the network sees (a tensor, or tensors by name), the wanted outputs, and the counts."""
        inputs = {name: torch.from_numpy(self._input(name, batch.arrays[name], noisy)) for name in self._seen}
        wanted = torch.from_numpy(self.normalisation.output(batch.arrays["action"]))
        seen = next(iter(inputs.values())) if len(inputs) == 1 else inputs
        return seen, wanted, torch.from_numpy(batch.counts)

    def _input(self, name: str, raw: npt.NDArray[Any], noisy: bool) -> npt.NDArray[Any]:
        """The array as the network sees it; noise is added where sensors have it, before the normalisation."""
        if noisy and name in self._noise:
            strength = self._rng.random((len(raw), *[1] * (raw.ndim - 1)), dtype=np.float32)
            noise = self._noise[name] * self._rng.standard_normal(raw.shape, dtype=np.float32)
            raw = np.add(raw, strength * noise, dtype=np.float32)
        return self.normalisation.input(raw, name)

    def _refuse_divergence(self, checkpoint: Path | None) -> NoReturn:
        """Raise FcnetError. The checkpoint goes: it would lead to the same end again, bit for bit."""
        if checkpoint:
            checkpoint.unlink(missing_ok=True)
        raise FcnetError(
            f"training diverged: at step {self.progress.step} the loss is {self._losses[-1]}, expected a finite number;"
            f" nothing was written, lower learning_rate ({self.config.learning_rate:g}) or gradient_clip"
            f" ({self.config.gradient_clip:g})"
        )

    def _run(self) -> str:
        """What must be equal for a checkpoint to continue this run, as JSON."""
        settings = msgspec.structs.asdict(self.config)
        for name in ("data", "log_interval", "checkpoint_interval"):
            del settings[name]  # folders may have moved; the others do not change the result
        normalisation = {name: scale.tolist() for name, scale in self.normalisation.scales.items()}
        recorded = {"training": self.crops.training_steps, "held out": self.crops.held_out_steps}
        return json.dumps({**settings, "normalisation": normalisation, "recorded steps": recorded})


def masked_loss(output: Tensor, wanted: Tensor, counts: Tensor, kind: str) -> Tensor:
    """Mean over the actions and over the steps that count, of output and wanted (B, T, 12), counts (B, T)."""
    if kind == "huber":
        error = nn.functional.huber_loss(output, wanted, reduction="none")
    else:
        error = (output - wanted).square()
    return (error.mean(-1) * counts).sum() / counts.sum()


def noise_by_entry(noise: dict[str, float], arrays: Spec) -> dict[str, Single]:
    """Standard deviations of the entries of each array that has any, from those of its named parts."""
    deviations: dict[str, Single] = {}
    for part, value in noise.items():
        having = [name for name, spec in arrays.items() if part in spec.parts]
        if not having:
            parts = [part for spec in arrays.values() for part in spec.parts]
            raise FcnetError(f"observation_noise names {part}, which the data do not have; they have {parts}")
        for name in having if value else ():
            deviation = deviations.setdefault(name, np.zeros(arrays[name].shape, dtype=np.float32))
            deviation[arrays[name].slices()[part]] = value
    return deviations
