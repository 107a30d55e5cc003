"""The Triton kernels against float64, on a GPU or by Triton's interpreter: `make test-kernels`."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="Triton, 640 MB, comes with torch for CUDA: make test-kernels installs it")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("kernels run on a GPU, or by the interpreter with TRITON_INTERPRET=1", allow_module_level=True)

from fcnet_core.policies.fcnet import FCNetConfig, sliding_filter  # noqa: E402
from fcnet_core.policies.fcnet.network import CausalSpectralConvolution  # noqa: E402


def difference(found: torch.Tensor, exact: torch.Tensor) -> float:
    return ((found.double().cpu() - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize(
    ("batch", "steps", "channels", "window", "modes", "past", "programs"),
    [
        (1, 1, 5, 8, 2, 0, 2048),  # one step
        (2, 20, 33, 8, 1, 0, 2048),  # odd numbers, one mode, a window that slides
        (1, 40, 32, 64, 10, 0, 2048),  # shorter than the window
        (2, 70, 7, 16, 8, 15, 2048),  # continued, in two spans that read their window
        (1, 140, 3, 150, 10, 149, 2048),  # windows formed from sums of spans and single rows
        (1, 300, 3, 300, 3, 0, 3),  # spans with corrections within, from sums alone
    ],
)
def test_outputs_and_gradients_are_those_of_the_network_in_float64(
    batch: int, steps: int, channels: int, window: int, modes: int, past: int, programs: int, monkeypatch
) -> None:
    monkeypatch.setattr(sliding_filter, "PROGRAMS", programs)
    torch.manual_seed(0)
    csc = CausalSpectralConvolution(FCNetConfig(observation=1, action=1, hidden=channels, window=window, modes=modes))
    x, gradient = torch.randn(batch, past + steps, channels), torch.randn(batch, steps, channels)
    exact = csc.double(), x.double().requires_grad_()
    y = exact[0](exact[1], past)
    wanted = [y, *torch.autograd.grad(y, (exact[1], csc.weights), gradient.double())]
    csc = csc.float().to(DEVICE)
    inputs = x.to(DEVICE).requires_grad_()
    y = sliding_filter.slide(inputs, torch.stack(csc.folded(csc.weights)), csc._turns, window, past)
    found = [y, *torch.autograd.grad(y, (inputs, csc.weights), gradient.to(DEVICE))]
    assert max(map(difference, found, wanted)) < 1.5e-6


def test_bfloat16_goes_in_and_out_and_the_spectrum_stays_in_float32() -> None:
    torch.manual_seed(0)
    csc = CausalSpectralConvolution(FCNetConfig(observation=1, action=1, hidden=4, window=16, modes=4))
    x = torch.randn(1, 80, 4).bfloat16()
    exact = csc.double()(x.double())
    y = sliding_filter.slide(x.to(DEVICE), torch.stack(csc.float().to(DEVICE).folded(csc.weights)), csc._turns, 16, 0)
    assert y.dtype == torch.bfloat16
    assert difference(y, exact) < 4e-3  # half a unit in the last place
