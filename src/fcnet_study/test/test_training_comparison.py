"""What is compared in training computes the same, in the same sequences, in turn."""

from __future__ import annotations

import pytest
import torch

from fcnet_core.cli import main
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.fcnet.network import FourierControllerNetwork
from fcnet_study.benchmarks.memory import measure_memory
from fcnet_study.benchmarks.published import published_network
from fcnet_study.benchmarks.steps import Pace
from fcnet_study.benchmarks.train_steps import networks, time_training, training


def test_the_published_form_has_the_network_s_outputs_and_gradients() -> None:
    config = FCNetConfig(hidden=16, layers=2, modes=4, window=12, decoder_hidden=8)
    network, published = FourierControllerNetwork(config), published_network(config)
    published.load_state_dict(network.state_dict())
    seen = torch.randn(3, config.window, config.observation)
    outputs = [one(seen) for one in (network, published)]
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=0)
    for output in outputs:
        output.square().sum().backward()
    for ours, theirs in zip(network.parameters(), published.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-4)


def test_networks_that_are_compared_in_training_are_of_equal_size() -> None:
    sizes = [sum(weight.numel() for weight in network.parameters()) for network in networks(64).values()]
    assert sizes[0] == sizes[1] == 787_852
    assert max(sizes) < 1.05 * min(sizes)


@pytest.mark.parametrize("half", [False, True])
def test_a_step_of_training_changes_every_weight(half) -> None:
    network = networks(16)["FCNet"]
    before = [weight.detach().clone() for weight in network.parameters()]
    training(network, batch=2, window=16, half=half)(0)
    assert all((weight != old).any() for weight, old in zip(network.parameters(), before, strict=True))


def test_training_is_timed_for_every_network_and_precision(tmp_path) -> None:
    pace = Pace(rounds=1, steps=1)
    measured = time_training(pace, half=True, batches={16: 1})
    report = measured.report(pace)
    assert len(report.rows) == 4 + 3
    assert report.rows["n 16 x 1, Transformer, bf16"][3] == "1.00 (1.00 to 1.00)"
    measured.draw(tmp_path / "train.png")
    assert (tmp_path / "train.png").read_bytes().startswith(b"\x89PNG")


def test_a_convolution_needs_less_memory_than_the_published_one() -> None:
    report = measure_memory({64: 16})
    published, ours, ratio = map(float, report.rows["n 64 x 16"])
    assert published > 5 * ours > 0
    assert ratio > 5


@pytest.mark.parametrize("arguments", [["step", "--bf16"], ["train", "--paced", "50"], ["memory", "--figure", "a.png"]])
def test_options_of_another_measurement_are_refused(arguments, capsys) -> None:
    assert main(["bench", *arguments]) == 2
    assert f"--{arguments[1].strip('-')}" in capsys.readouterr().err
