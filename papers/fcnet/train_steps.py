"""Duration of a training step (forward, backward, optimiser) of whole networks of equal size, on one core.

The published form is that of published.py, with the same optimiser as the others. bf16: matrix products in bfloat16 by
autocast, as in `fcnet train`; the published form, whose convolution is complex, stays in float32.

    python -m papers.fcnet.train_steps --bf16 --rounds 3

--device cuda: in eager PyTorch with TF32; benchmarks/gpu.py measures FCNet as it is trained on a GPU.
"""

from collections.abc import Mapping

import torch

from fcnet_core.bench import Call, Pace, ResultTable, Timing, interleave
from fcnet_core.learning.config import example_config
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.fcnet.network import FourierControllerNetwork
from fcnet_core.policies.network import PolicyNetwork
from fcnet_core.policies.retnet import RetNetConfig
from fcnet_core.policies.retnet.network import RetNet
from fcnet_core.policies.transformer import TransformerConfig
from fcnet_core.policies.transformer.network import CausalTransformer
from papers.fcnet.published import published_network
from papers.shared import pace_of, parser, run, write

PERIODS = 4096  # control periods of a step at n = 64; a quarter of them at larger windows; on a GPU 16 times as many
PUBLISHED, PEERS = "published", ("Transformer", "RetNet")
FULL, HALF = "float32", "bf16"


def networks(window: int, device: str = "cpu") -> dict[str, PolicyNetwork]:
    """Return the networks by name, with 0.8 million parameters each."""
    size = example_config(FCNetConfig, window=window, modes=min(10, (window + 1) // 2))
    made: dict[str, PolicyNetwork] = {
        PUBLISHED: published_network(size),
        "FCNet": FourierControllerNetwork(size),
        "Transformer": CausalTransformer(example_config(TransformerConfig, window=window)),
        "RetNet": RetNet(example_config(RetNetConfig, window=window)),
    }
    return {name: network.to(device) for name, network in made.items()}


def batch_of(window: int, device: str = "cpu") -> int:
    """Return the number of sequences of a step."""
    periods = 16 * PERIODS if device == "cuda" else PERIODS if window <= 64 else PERIODS // 4
    return max(1, periods // window)


def training(network: PolicyNetwork, window: int, half: bool, device: str = "cpu") -> Call:
    """Return a training step on the same random sequences (batch, window, entries)."""
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    generator = torch.Generator().manual_seed(0)
    sizes = example_config(FCNetConfig).observation, example_config(FCNetConfig).action
    shapes = ((batch_of(window, device), window, size) for size in sizes)
    seen, labels = (torch.randn(shape, generator=generator).to(device) for shape in shapes)

    def step(_index: int) -> None:
        with torch.autocast(device, torch.bfloat16, enabled=half):
            loss = (network.actions(seen) - labels).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def time_window(window: int, pace: Pace, half: bool, device: str = "cpu") -> Timing:
    """Time all networks, called "NETWORK, PRECISION", in turn; half: also in bfloat16."""
    calls: dict[str, Call] = {}
    for precision in (FULL, HALF) if half else (FULL,):
        for name, network in networks(window, device).items():
            if name != PUBLISHED or precision == FULL:
                calls[f"{name}, {precision}"] = training(network, window, precision == HALF, device)
    return interleave(calls, pace)


def table(timings: Mapping[int, Timing], pace: Pace, device: str = "cpu") -> ResultTable:
    """Return a row for each window and network; peers are compared in the same precision."""
    rows = {}
    for window, timing in timings.items():
        for name in timing.wall:
            precision = name.partition(", ")[2]
            references = [f"{PUBLISHED}, {FULL}", *(f"{peer}, {precision}" for peer in PEERS)]
            times = (1e3 * timing.quantile(name, 0.5), 1e3 * timing.mean_processor(name))
            ratios = (timing.ratio_text(name, reference) for reference in references)
            rows[f"n {window} x {batch_of(window, device)}, {name}"] = (*(f"{time:.1f}" for time in times), *ratios)
    columns = ("p50 [ms]", "CPU [ms]", *(f"faster than {name}" for name in (PUBLISHED, *PEERS)))
    return ResultTable("One step of training", columns, rows, how=str(pace))


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, rounds=5, steps=1, figure=False)
    options.add_argument("--bf16", action="store_true", help="also with matrix products in bfloat16")
    options.add_argument("--windows", type=int, nargs="+", default=[64, 256, 1024], metavar="N", help="windows n")
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = options.parse_args()
    pace = pace_of(args)
    if args.device == "cuda":
        torch.set_float32_matmul_precision("high")
    timings = {window: time_window(window, pace, args.bf16, args.device) for window in args.windows}
    write(table(timings, pace, args.device), args.json)


if __name__ == "__main__":
    run(main)
