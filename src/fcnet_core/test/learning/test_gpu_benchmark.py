"""The rows of benchmarks/gpu.py on a CPU, with the filter tap by tap in place of the kernels; nothing is timed."""

import sys
from types import SimpleNamespace

from benchmarks import gpu


def slide(x: gpu.Tensor, v: gpu.Tensor, _u: gpu.Tensor, window: int, past: int) -> gpu.Tensor:
    phases = gpu.torch.from_numpy(gpu.network.phase_table(window, v.shape[1]).T[: x.shape[1]]).to(gpu.torch.complex64)
    return gpu.causal_filter.causal_filter(x, phases.real @ v[0] - phases.imag @ v[1])[:, past:]


def test_every_part_measures_its_rows(tiny_data, monkeypatch) -> None:
    bench = dict.fromkeys(("do_bench", "do_bench_cudagraph"), lambda call, return_mode: (call(), 1.0)[1])
    monkeypatch.setitem(sys.modules, "triton.testing", SimpleNamespace(**bench))
    monkeypatch.setitem(sys.modules, "fcnet_core.policies.fcnet.sliding_filter", SimpleNamespace(slide=slide))
    monkeypatch.setattr(gpu.torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(gpu, "DATA", tiny_data)
    tiny = {"crop": 24, "batch": 2, "log_interval": 1}
    assert max((gpu.filters("cpu", False, *gpu.SMALL[1]) | gpu.network_errors("cpu", **tiny)).values()) < 1e-6
    assert set(map(str, gpu.filters("cpu", True, 8, (2, 12, 3)).values())) == {str([1.0] * 10)}
    assert gpu.steps("cpu", "float32", 24, 2, 24)["ratio"] == [1.0] * 10
    assert len(gpu.train("cpu", "mlp", **tiny, steps=8)["steps/s"]) == 3
