"""How much memory one causal spectral convolution needs at most in training, against the published form."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from pathlib import Path

from fcnet_core.errors import StudyError
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_study.report import Report

BATCHES = {64: 64, 256: 16, 1024: 4}  # sequences by window n: 4,096 control periods
FORMS = ("published", "FCNet")


def measure_memory(batches: Mapping[int, int] = BATCHES) -> Report:
    """A row for each window n. Raises StudyError where the system has no /proc."""
    if not Path("/proc/self/clear_refs").exists():
        raise StudyError("a process's peak memory is read from /proc, which this system does not have; use Linux")
    rows = {}
    # A fresh process each time: what another form has allocated and freed would count, or hide what this one takes.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for window, batch in batches.items():
            published, ours = (pool.apply(peak_memory, (form, window, batch)) for form in FORMS)
            rows[f"n {window} x {batch}"] = (f"{published:.0f}", f"{ours:.1f}", f"{published / ours:.1f}")
    columns = (*(f"{form} [MiB]" for form in FORMS), "times less")
    how = "largest resident memory during forward and backward of one layer's convolution, beyond that before"
    return Report("Memory of a causal spectral convolution in training", columns, rows, how)


def peak_memory(form: str, window: int, batch: int) -> float:
    """The peak [MiB] of forward and backward on (batch, window, 256), beyond what the process had before."""
    import torch

    from fcnet_core.policies.fcnet.network import CausalSpectralConvolution
    from fcnet_study.benchmarks.published import PublishedConvolution

    torch.set_num_threads(1)
    config = FCNetConfig(window=window)
    layer = PublishedConvolution(config) if form == "published" else CausalSpectralConvolution(config)

    def train(x: torch.Tensor) -> None:
        layer(x).square().sum().backward()

    train(torch.randn(1, window, config.hidden, requires_grad=True))  # loads libraries, and what is compiled
    layer.zero_grad()
    x = torch.randn(batch, window, config.hidden, requires_grad=True)
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    train(x)
    return _resident("VmHWM") - before


def _resident(what: str) -> float:
    """A line of /proc/self/status in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(what))
