"""Measures FCNet on a GPU: errors and times of its kernels, optimiser steps of `fcnet train`, and whole training.

    python benchmarks/gpu.py --part correct|kernel|step|train

Needs a GPU, PyTorch 2.11 or newer with Triton, msgspec, safetensors and PyYAML, but no build. No row is started after
three minutes: the same command goes on with what the file lacks for this machine and these sources.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, autograd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src/fcnet_core"))
sys.path.append(sys.path[0] + "/test/shared")

from training_processes import write_tiny_data

from fcnet_core.learning import config, imitation
from fcnet_core.learning.trainer import Trainer
from fcnet_core.policies import causal_filter
from fcnet_core.policies.fcnet import FCNetConfig, network
from fcnet_core.verbs import markdown

DATA = Path(__file__).resolve().parents[1] / "build/gpu_data"
Row = dict[str, Any]  # by column: a number, or one for each round


def filters(device: str, timed: bool, window: int, shape: tuple[int, ...], past: int = 0, kind: str = "float32") -> Row:
    """Compare the kernels with float64, for outputs (B, T, C) after `past` steps, or time them and others [ms]."""
    slide = importlib.import_module("fcnet_core.policies.fcnet.sliding_filter").slide
    size = FCNetConfig(observation=1, action=1, window=window, modes=min(10, (window + 1) // 2), hidden=shape[2])
    csc, drawn = network.CausalSpectralConvolution(size).to(device), Row(device=device, dtype=getattr(torch, kind))
    x, gradient = (torch.randn(shape[0], rows, shape[2], **drawn) for rows in (past + shape[1], shape[1]))
    outputs = {
        "kernels": lambda x: slide(x, torch.stack(csc.folded(csc.weights)), csc._turns, window, past),
        "FFT": lambda x: causal_filter.causal_filter(x.to(csc.weights), csc.kernel()[: x.shape[1]])[:, past:],
    }

    def both(way: str, x: Tensor) -> tuple[Tensor, ...]:
        y = outputs[way](x.requires_grad_())
        return y, *autograd.grad(y, (x, csc.weights), gradient.to(y))

    if timed:
        calls = {"forward": lambda: outputs["kernels"](x), "copy": x.clone}
        return _turns(calls | {f"both, {way}": lambda way=way: both(way, x) for way in outputs}, "do_bench_cudagraph")
    found, csc = both("kernels", x), csc.double()
    return dict(zip(("y", "dx", "dW"), map(_error, found, both("FFT", x.detach().double())), strict=True))


def network_errors(device: str, **settings: Any) -> Row:
    """Compare loss and gradients of the fifth step of the imitation preset with those on a CPU."""
    trainers: list[Any] = [trainer_of("imitation", device=place, **settings) for place in (device, "cpu")]
    losses = [[trainer.optimise() for _ in range(5)][-1] for trainer in trainers]
    gradients = [torch.cat([weight.grad.flatten() for weight in trainer.network.parameters()]) for trainer in trainers]
    return {"loss": _error(*losses), "dW": _error(*gradients)}


def steps(device: str, precision: str, window: int, batch: int, crop: int, **settings: Any) -> Row:
    """Time optimiser steps of FCNet and the Transformer [ms] on crops that stay on the GPU, and their memory [GB]."""
    calls, memory, settings = Row(), Row(), settings | {"precision": precision, "batch": batch, "crop": crop}
    for name, preset in (("FCNet", "imitation"), ("Transformer", "transformer")):
        torch.cuda.reset_peak_memory_stats()
        trainer: Any = trainer_of(preset, device=device, config={"window": window}, **settings)
        tensors = trainer._tensors_of(0)
        placed = trainer._placed(tensors)
        vars(trainer).update(_tensors_of=lambda _, held=tensors: held, _placed=lambda _, held=placed: held)
        calls[name] = trainer.optimise
        trainer.optimise()
        memory[f"{name} [GB]"] = (torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()) / 1e9
    times = _turns(calls, "do_bench")
    return times | {"ratio": np.divide(times["FCNet"], times["Transformer"]).tolist()} | memory


def train(device: str, preset: str, **settings: Any) -> Row:
    """Train by a preset with reading, noise, reports, validation and checkpoints: steps a second in the second half."""
    trainer, marks = trainer_of(preset, device=device, **settings), list[float]()
    trainer.run(lambda _: marks.append(time.perf_counter()), lambda: False, DATA / "checkpoint")
    return {"steps/s": (trainer.config.log_interval / np.diff(marks[len(marks) // 2 :])).tolist()}


def trainer_of(preset: str, **settings: Any) -> Trainer:
    """Return the trainer of a preset on made-up data."""
    settings = {"data": (str(DATA),), "steps": 2000, "epochs": None} | settings
    return imitation.Imitation(config.with_settings(config.load_train_config(preset), **settings)).trainer


def _turns(calls: dict[str, Any], bench: str) -> Row:
    """Return the times of calls [ms], medians of a function of triton.testing, in ten rounds after one to warm up."""
    measure = getattr(importlib.import_module("triton.testing"), bench)
    rounds = [[measure(call, return_mode="median") for call in calls.values()] for _ in range(11)]
    return dict(zip(calls, np.transpose(rounds[1:]).tolist(), strict=True))


def _error(found: Tensor, exact: Tensor) -> float:
    return float(f"{(found.to(exact) - exact).abs().max() / exact.abs().max():.2g}")


SMALL = [(64, (1, 64, 32)), (64, (2, 70, 33), 63), (16, (1, 130, 7), 0, "bfloat16")]  # for the interpreter, too
SIZES = [(64, 1024, 64), (64, 64, 64), (256, 256, 256), (1024, 64, 1024), (64, 8, 128)]
FILTERS = [(n, (b, t, 256)) for n, b, t in (*SIZES, (64, 512, 128), (1024, 16, 4096), (64, 32, 8192), (1024, 32, 8192))]
PARTS: dict[str, list[tuple[Any, ...]]] = {
    "correct": [*((filters, False, *case) for case in SMALL + FILTERS), (network_errors,)],
    "kernel": [(filters, True, *case) for case in (*FILTERS, (*FILTERS[0], 0, "bfloat16"))],
    "step": [(steps, *case) for case in (("tf32", *SIZES[0]), *(("bfloat16", *size) for size in SIZES))],
    "train": [(train, preset) for preset in ("imitation", "imitation_gpu", "transformer", "retnet", "mlp")],
}


def main(arguments: list[str] | None = None) -> None:
    """Measure the rows of a part that the file lacks, and print its table. Exit code 2: this machine cannot do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--out", type=Path, default=DATA.with_name("gpu.jsonl"), metavar="FILE", help="rows, as JSON")
    args, began, gpu = parser.parse_args(arguments), time.monotonic(), torch.cuda.is_available()
    possible = gpu or (args.part == "correct" and os.getenv("TRITON_INTERPRET") == "1")
    if not possible or not importlib.util.find_spec("triton"):
        parser.exit(2, f"gpu: --part {args.part} needs a GPU and Triton; correct takes TRITON_INTERPRET=1 for a GPU\n")
    code = b"".join(path.read_bytes() for path in sorted(Path(sys.path[0]).rglob("*.py")))
    machine = f"{torch.cuda.get_device_name() if gpu else 'interpreter'}, PyTorch {torch.__version__}"
    key = {"part": args.part, "machine": machine, "sources": hashlib.sha256(code).hexdigest()[:12]}
    if not DATA.exists():
        write_tiny_data(DATA, range(6), steps=2048)
    lines = args.out.read_text(encoding="utf-8").splitlines() if args.out.exists() else []
    rows = {row["row"]: row for row in map(json.loads, lines) if key.items() <= row.items()}
    causal_filter.DIRECT_WINDOW = 0  # by FFT, without numba
    for measure, *case in PARTS[args.part] if gpu else PARTS["correct"][: len(SMALL)]:
        name = f"{measure.__name__}{tuple(case)}"
        if name not in rows and time.monotonic() - began < 180:
            torch.compiler.reset()  # a function is compiled for eight networks at most
            rows[name] = key | {"row": name} | measure("cuda" if gpu else "cpu", *case)
            with args.out.open("a", encoding="utf-8") as file:
                print(json.dumps(rows[name]), file=file)
    heads = list(dict.fromkeys(head for row in rows.values() for head in row if head not in key))
    print(markdown(heads, [[_cell(row.get(head, "")) for head in heads] for row in rows.values()]))


def _cell(value: Any) -> str:  # of rounds: their median, 10 and 90 % quantiles
    return str(np.quantile(value, [0.5, 0.1, 0.9]).round(4).tolist() if isinstance(value, list) else value)


if __name__ == "__main__":
    main()
