"""The training loop, exactly repeatable and exactly resumable, in one process or many.

The crops of an optimiser step and their noise are a function of the seed and the step's number. So crops can be read
ahead, a resumed run continues with the same crops, and N processes that share a batch see the crops of one process.
Dropout, if a network has it, draws from torch's generator, of which each process has its own.

On a GPU, the passes forward and backward are compiled and recorded as CUDA graphs, and the loop does not wait for the
GPU: losses are fetched, and found to be finite, when they are reported or a checkpoint is written.
"""

import io
import json
import math
import pickle
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fcnet_core.arrays import Spec, part_name
from fcnet_core.errors import FcnetError
from fcnet_core.files import write_whole, writing
from fcnet_core.learning.config import TrainConfig
from fcnet_core.learning.processes import Processes
from fcnet_core.learning.sampler import Batch, CropSampler
from fcnet_core.observation import PolicyInterface, SensorErrors, SensorModel
from fcnet_core.observation.sensors import BatchGenerator, Sensor, Sensors, sensors_of
from fcnet_core.policies.network import PolicyNetwork
from fcnet_core.policies.normalisation import Normalisation

HELD_OUT_CROPS = 256
HELD_OUT_BATCH = 32
AHEAD = {"cpu": 2, "cuda": 8}  # batches that are prepared while the network computes, each by a thread
CROPS, NOISE, SCALE = 2, 3, 4  # streams of random numbers; 0 and 1 are the sampler's
Tensors = tuple[dict[str, Tensor], Tensor, Tensor]


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` (tensors and plain values) to `path`, whole or not at all."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with writing(path, "make room or raise the limit, then continue with --resume"):
        write_whole(path, buffer.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; code in it is refused. Raises FcnetError if there is none or it cannot be read."""
    if not path.is_file():
        raise FcnetError(f"there is no checkpoint {path} to resume; leave out --resume to start from the beginning")
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        raise FcnetError(f"checkpoint {path} is damaged or of another release ({reason}); start again") from error
    return content


@dataclass
class Progress:
    """Progress of a run. loss: mean since the last report, in the network's unit; held_out_error: latest root mean
    square error on held-out data [rad], measured at held_out_step, None before the first; seconds: training time
    without pauses.
    """

    steps: int
    step: int = 0
    loss: float = math.nan
    held_out_error: float | None = None
    held_out_step: int = 0
    learning_rate: float = 0.0
    seconds: float = 0.0


class Trainer:
    """Trains `network` in place; config, data and normalisation define the run.

    arrays: the arrays of a step of the data; the network's configuration names the ones that it reads. Several
    processes have the same settings, data and progress. Each computes its share of a batch; gradients, losses and
    errors are of the whole batch. The first process writes the checkpoint.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        config: TrainConfig,
        crops: CropSampler,
        normalisation: Normalisation,
        arrays: Spec,
        processes: Processes,
        interface: PolicyInterface,
    ) -> None:
        if config.batch < processes.count:
            raise FcnetError(f"batch is {config.batch}, but each of the {processes.count} processes needs a crop of it")
        torch.set_num_threads(config.threads)
        self._device = processes.device(config.device)
        if config.precision == "bfloat16":
            check_bfloat16(self._device)
        torch.set_float32_matmul_precision("high" if config.precision == "tf32" else "highest")
        self.network = network.to(self._device)
        self.config = config
        self.crops = crops
        self.normalisation = normalisation
        self.progress = Progress(config.total_steps(crops.training_steps))
        self._processes = processes
        self._losses: list[Tensor] = []  # since the last report
        self._seen = config.policy_config.observation_spec
        self._measured = {name: arrays[name] for name in self._seen if arrays[name].parts}
        self._scales = {name: interface.scales(name) for name in self._measured.keys() & interface.inputs}
        self._sensors, self._period = self._sensors_of(config.observation_noise), 1.0 / interface.rate
        if len(set(processes.gather(self._run()))) > 1:
            raise FcnetError("the processes of this training have other settings or data; give each the same files")
        self._parallel = processes.parallel(self.network)
        self._error = self._error_of_batch
        if self._device.type == "cuda" if config.compile == "auto" else config.compile:
            graphs = "reduce-overhead" if processes.count == 1 else "default"  # DDP's hooks cannot be in a CUDA graph
            self._error = torch.compile(self._error_of_batch, mode=graphs, dynamic=False)
        rate, betas, eps = config.learning_rate, config.betas, config.eps
        self._optimiser = torch.optim.Adam(network.parameters(), rate, betas, eps, fused=True)
        self._ahead = AHEAD[self._device.type]
        self._reader = ThreadPoolExecutor(self._ahead, thread_name_prefix="crops")
        self._read: dict[int, Future[Tensors]] = {}  # by the number of the optimiser step
        torch.manual_seed(config.seed * processes.count + processes.rank)

    def run(self, report: Callable[[Progress], None], stop: Callable[[], bool], checkpoint: Path | None = None) -> bool:
        """Train to the end, or until `stop` returns True after a step and the checkpoint is written. Return whether the
        end was reached.

        report: called at each log_interval and after each validation, before the weights change again.
        """
        config, progress = self.config, self.progress
        stopped = False
        while progress.step < progress.steps and not stopped:
            began = time.perf_counter()
            self._losses.append(self.optimise())
            (stops,) = self._processes.sum(stop())
            last = progress.step == progress.steps
            stopped = stops > 0 and not last
            validates = last or progress.step % config.validation_interval == 0
            saves = stopped or last or progress.step % config.checkpoint_interval == 0
            if validates:
                progress.held_out_error, progress.held_out_step = self.validate(), progress.step
            reports = validates or progress.step % config.log_interval == 0
            if reports or saves:
                losses = self._fetched_losses(checkpoint)
            progress.seconds += time.perf_counter() - began
            if reports:
                progress.loss = float(np.mean(losses))
                self._losses.clear()
                report(replace(progress))
            if checkpoint and saves:
                self.save(checkpoint)
        return not stopped

    def _fetched_losses(self, checkpoint: Path | None) -> list[float]:
        """Return the losses of the whole batch since the last report. Raises FcnetError that names the first step whose
        loss is not finite, after it has removed the checkpoint: a resumed run would diverge again, bit for bit.
        """
        losses = self._processes.sum(*torch.stack(self._losses).tolist())
        found = [*losses, self.progress.held_out_error or 0.0]
        if wrong := [index for index, value in enumerate(found) if not math.isfinite(value)]:
            if checkpoint and self._processes.rank == 0:
                checkpoint.unlink(missing_ok=True)
            step = min(self.progress.step - len(losses) + wrong[0] + 1, self.progress.step)
            raise FcnetError(
                f"training diverged: at step {step} the loss is {found[wrong[0]]}, expected a finite number; lower"
                f" learning_rate ({self.config.learning_rate:g}) or gradient_clip ({self.config.gradient_clip:g})"
            )
        return losses

    def optimise(self) -> Tensor:
        """Make one optimiser step and return this process's part of its loss; a GPU may still be computing it."""
        tensors = self._tensors_of(self.progress.step)
        (steps,) = self._processes.sum(tensors[2].sum().item())
        self._optimiser.zero_grad()
        torch.compiler.cudagraph_mark_step_begin()  # gradients of the step before are not needed any more
        loss = self._gradients(self._error, tensors, steps)
        if loss is None:
            raise self._too_large(tensors)
        if self.config.gradient_clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip)
        self.progress.learning_rate = self.learning_rate(self.progress.step)
        for group in self._optimiser.param_groups:
            group["lr"] = self.progress.learning_rate
        self._optimiser.step()
        self.progress.step += 1
        return loss

    def _gradients(self, error: Callable[..., Tensor], tensors: Tensors, steps: float) -> Tensor | None:
        """Compute the gradients of crops. Return their part of the loss, or None if the GPU's memory is exhausted."""
        try:
            loss = error(*self._placed(tensors)) / steps
            (loss * self._processes.count).backward()  # the processes average their gradients
        except torch.OutOfMemoryError:
            return None
        return loss.detach()

    def _too_large(self, tensors: Tensors) -> FcnetError:
        """Return the error for crops that the memory does not hold. It names how many fit, found by halving them."""
        self._parallel = self.network.actions  # the other processes take no part in this
        torch.compiler.reset()  # frees the memory of CUDA graphs
        crops, loss = len(tensors[2]), None
        while loss is None and crops > 1:
            crops //= 2
            self._optimiser.zero_grad()
            torch.cuda.empty_cache()
            inputs, target, valid = tensors
            part = {name: tensor[:crops] for name, tensor in inputs.items()}, target[:crops], valid[:crops]
            loss = self._gradients(self._error_of_batch, part, 1.0)
        size = f"{self.config.batch} crops of {self.config.crop} steps"
        small = f"the memory of the GPU is too small for a batch of {size}"
        if loss is None:
            return FcnetError(f"{small}, and for one of them; use a smaller crop or network")
        return FcnetError(f"{small}; set batch: {crops * self._processes.count}, which fits")

    def _error_of_batch(self, observation: Any, target: Tensor, valid: Tensor) -> Tensor:
        with self._autocast():
            output = self._parallel(observation)
        return summed_error(output, target, valid, self.config.loss)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate: linear warm-up, then half a cosine to zero (get_cosine_schedule_with_warmup)."""
        steps, highest = self.progress.steps, self.config.learning_rate
        warm = self.config.warmup * steps
        if step < warm:
            return highest * (step + 1) / (warm + 1)
        return highest * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))

    def validate(self) -> float | None:
        """Return the root mean square error [rad] on held-out crops without noise; None if nothing is held out."""
        scale = torch.from_numpy(self.normalisation.scales["action_scale"]).to(self._device)
        error, count, share = 0.0, 0.0, self._processes.share(HELD_OUT_CROPS)
        self.network.eval()
        with torch.no_grad():
            for batch in self.crops.held_out(HELD_OUT_CROPS, HELD_OUT_BATCH, self.config.seed, share):
                observation, target, valid = self._placed(self._tensors(batch))
                with self._autocast():
                    output = self.network.actions(observation)
                square = ((output - target) * scale).square().mean(-1)
                error += (square * valid).sum().item()
                count += valid.sum().item()
        self.network.train()
        error, count = self._processes.sum(error, count)
        return math.sqrt(error / count) if count else None

    def save(self, path: Path) -> None:
        """Write a checkpoint, in all processes at once."""
        generators = {"cpu": torch.get_rng_state()}  # for dropout
        if self._device.type == "cuda":
            generators["cuda"] = torch.cuda.get_rng_state(self._device)
        content = {
            "run": self._run(),
            "progress": asdict(self.progress),
            "losses": torch.stack(self._losses).cpu() if self._losses else torch.zeros(0),
            "generators": self._processes.gather(generators),
            "network": self.network.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }
        if self._processes.rank == 0:
            save_checkpoint(path, content)

    def restore(self, path: Path) -> None:
        """Continue from a checkpoint, in all processes. Raises FcnetError if settings or data differ."""
        content = self._processes.from_first(lambda: load_checkpoint(path))
        saved = json.loads(content["run"])
        for name, value in json.loads(self._run()).items():
            if saved.get(name) != value:
                remedy = "resume with the settings and data of its run, or start again without --resume"
                raise FcnetError(f"checkpoint {path} was made with another {name}; {remedy}")
        self.network.load_state_dict(content["network"])
        self._optimiser.load_state_dict(content["optimiser"])
        self.progress = Progress(**content["progress"])
        self._losses = list(content["losses"].to(self._device))
        self._read.clear()
        generators = content["generators"][self._processes.rank]
        torch.set_rng_state(generators["cpu"])
        if "cuda" in generators:
            torch.cuda.set_rng_state(generators["cuda"], self._device)

    def _tensors_of(self, step: int) -> Tensors:
        """Return this process's crops of an optimiser step; the next AHEAD batches are prepared in the background."""
        for number in range(step, min(step + 1 + self._ahead, self.progress.steps)):
            if number not in self._read:
                self._read[number] = self._reader.submit(self._drawn, number)
        return self._read.pop(step).result()

    def _drawn(self, step: int) -> Tensors:
        """Return the crops of an optimiser step, with sensor noise."""
        seed, size = self.config.seed, self.config.batch
        share = self._processes.share(size)
        batch = self.crops.draw(np.random.default_rng([seed, CROPS, step]), size, share)
        factors, rng = np.random.default_rng([seed, SCALE, step]), BatchGenerator([seed, NOISE, step], size, share)
        for name, spec in self._measured.items() if self._sensors else ():
            scale = (1.0 - factors.random((size, 1))[share]) * self._scales.get(name, np.ones(spec.shape))  # none is 0
            errors = SensorErrors(self._sensors, spec, rng, len(scale), scale)
            batch.arrays[name] = errors.measure(batch.arrays[name].swapaxes(0, 1), self._period).swapaxes(0, 1)
        return self._tensors(batch)

    def _sensors_of(self, noise: SensorModel | dict[str, float]) -> Sensors:
        """Return the sensors whose errors are added. Raises FcnetError for a part that the data do not have."""
        if isinstance(noise, str):
            return sensors_of(noise)
        parts = {part_name(part) for spec in self._measured.values() for part in spec.parts}
        if unknown := [part for part in noise if part not in parts]:
            raise FcnetError(f"observation_noise names {unknown[0]}, which the data lack; they have {sorted(parts)}")
        return {part: Sensor(white=deviation) for part, deviation in noise.items()}

    def _tensors(self, batch: Batch) -> Tensors:
        """Return the network's inputs by name, the target outputs, and the valid steps."""
        inputs = {name: self._held(self.normalisation.input(batch.arrays[name], name)) for name in self._seen}
        return inputs, self._held(self.normalisation.output(batch.arrays["action"])), self._held(batch.valid)

    def _held(self, array: npt.NDArray[Any]) -> Tensor:
        """Return an array as a tensor. A GPU copies it from locked memory, which PyTorch reuses only after the copy."""
        tensor = torch.from_numpy(array)
        return tensor.pin_memory() if self._device.type == "cuda" else tensor

    def _placed(self, tensors: Tensors) -> tuple[Any, Tensor, Tensor]:
        """Return tensors on the device, and a single input without its name, as the network takes it."""
        inputs, target, valid = tensors
        placed = {name: tensor.to(self._device, non_blocking=True) for name, tensor in inputs.items()}
        seen = placed if len(placed) > 1 else next(iter(placed.values()))
        return seen, target.to(self._device, non_blocking=True), valid.to(self._device, non_blocking=True)

    def _autocast(self) -> torch.autocast:
        """Compute matrix products in the configured precision; weights, optimiser and loss stay in float32."""
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16")

    def _run(self) -> str:
        """Return the settings and data sizes that a checkpoint must share with this run, as JSON."""
        settings = self.config.entries
        for name in ("data", "log_interval", "checkpoint_interval"):
            del settings[name]  # folders may have moved; the others do not change the result
        normalisation = {name: scale.tolist() for name, scale in self.normalisation.scales.items()}
        recorded = {"training": self.crops.training_steps, "held out": self.crops.held_out_steps}
        facts = {"normalisation": normalisation, "recorded steps": recorded}
        return json.dumps(settings | facts | {"number of processes": self._processes.count})


def summed_error(output: Tensor, target: Tensor, valid: Tensor, kind: str) -> Tensor:
    """Return the loss of output and target (B, T, A), the mean over the actions and the sum over valid (B, T) steps."""
    huber = nn.functional.huber_loss
    error = huber(output.float(), target, reduction="none") if kind == "huber" else (output - target).square()
    return (error.mean(-1) * valid).sum()


def check_bfloat16(device: torch.device) -> None:
    """Raise FcnetError if the device has no instructions for products in bfloat16, which would make it slow."""
    if device.type == "cuda":
        has = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        facts = torch.cpu.get_capabilities()
        names = ("amx_bf16", "avx512_bf16", "bf16")  # the last is ARM's
        has = any(facts.get(name) for name in names) and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    if not has:
        raise FcnetError(f"this machine's {device.type} has no products of bfloat16; set precision: float32")
