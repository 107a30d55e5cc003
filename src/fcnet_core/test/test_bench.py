"""Alternatives run in turn, each as often as asked; `fcnet bench step` compares the runtimes of a policy."""

import json
import time
from pathlib import Path

from policy_forms import untrained

from fcnet_core.bench import ONNX, WARM_UP, Pace, interleave
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.learning.config import example_config
from fcnet_core.model_file import save_model
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.mlp import MLPConfig

SMALL = example_config(FCNetConfig, hidden=16, layers=2, modes=4, window=8, decoder_hidden=8)
MLP = example_config(MLPConfig, hidden=(8,), window=2)


def test_the_verb_compares_the_runtimes_of_every_model(tmp_path: Path, capsys) -> None:
    names = [str(tmp_path / name) for name in ("fcnet.safetensors", "mlp.safetensors")]
    for name, config in zip(names, (SMALL, MLP), strict=True):
        save_model(untrained(config), Path(name))
    pace = ("--rounds", "2", "--steps", "3")
    assert main(["bench", "step", *names, *pace, "--json", str(tmp_path / "step.json")]) == 0
    written = json.loads((tmp_path / "step.json").read_text())
    assert [("numba" in table["rows"]) for table in written.values()] == [True, False]
    for name, table in written.items():
        assert name in names and table["columns"][-1] == f"faster than {ONNX}" and "torch" in table["machine"]
        assert all(len(cells) == len(table["columns"]) for cells in table["rows"].values())
        assert table["rows"][ONNX][-1] == "1.00 (1.00 to 1.00)"
    capsys.readouterr()
    assert main(["bench", "step", names[1], *pace, "--json", "-"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == names[1:]
    assert main(["bench", "step", "missing.safetensors"]) == USAGE_ERROR


def test_every_alternative_runs_in_every_round() -> None:
    called = []
    timing = interleave({"a": called.append, "b": lambda index: called.append(-index)}, Pace(2, 3))
    one = [*range(WARM_UP), *range(3)]
    assert called == 2 * [*one, *(-index for index in one)] and timing.wall["a"].shape == (2, 3)


def test_a_ratio_is_of_processor_time_and_leaves_out_waiting() -> None:
    def work(count: int) -> None:
        sum(range(count))

    def wait(_index: int) -> None:
        work(20_000)
        time.sleep(0.005)

    calls = {"work": lambda _index: work(20_000), "wait": wait, "more": lambda _index: work(200_000)}
    timing = interleave(calls, Pace(10, 5))
    assert timing.ratio("more", "work")[1] < 0.3
    assert timing.ratio("wait", "work")[1] > 0.3  # by wall time it is 0.1 or less
    assert timing.quantile("wait", 0.5) > 0.005


def test_a_period_paces_the_calls_and_waiting_does_not_count() -> None:
    times = []
    started = time.perf_counter()
    timing = interleave({"a": lambda _index: times.append(time.perf_counter())}, Pace(1, 5, period=0.02))
    assert all(called >= started + index * 0.02 for index, called in enumerate(times[WARM_UP:]))
    assert timing.mean_processor("a") < 0.01
