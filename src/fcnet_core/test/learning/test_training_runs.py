"""What a training run leaves behind can be read, looked at, compared and followed elsewhere."""

import json
import re
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fcnet_core.cli import main
from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import TrainConfig, with_settings
from fcnet_core.learning.imitation import Imitation
from fcnet_core.learning.runs import RunFolder, Tracker, load_tracker, new_run, read_run, recording
from fcnet_core.model_file import load_model

METRICS = "step,loss,learning_rate,held_out_error,seconds\n10,0.5,0.01,,1.0\n20,0.2,0.005,0.03,2.0\n"


def trained(config: TrainConfig, path: Path, tracker: Tracker | None = None, stop_at: int | None = None) -> RunFolder:
    """Train into the folder `path`; continue if it has a checkpoint."""
    folder, run = RunFolder(path), Imitation(config)
    path.mkdir(exist_ok=True)
    if folder.checkpoint.exists():
        run.trainer.restore(folder.checkpoint)
    with recording(folder, run, "fcnet train", tracker) as recorder:
        if run.trainer.run(recorder.record, lambda: run.trainer.progress.step == stop_at, folder.checkpoint):
            recorder.finish()
    return folder


def written(path: Path, **facts: object) -> Path:
    """A run's folder as a training leaves it, without the policies."""
    path.mkdir()
    known = {"robot": "aliengo", "policy_type": "fcnet", "parameters": 5, "steps": 20} | facts
    (path / "run.json").write_text(json.dumps({**known, "command_line": "", "state": "finished"}))
    (path / "settings.yaml").write_text("{data: [data], steps: 20}")
    (path / "metrics.csv").write_text(METRICS)
    return path


def test_the_best_policy_is_that_of_the_lowest_held_out_error(tiny_config: TrainConfig, tmp_path: Path) -> None:
    """A learning rate that rises to the end makes the policy worse at last."""
    config = with_settings(tiny_config, validation_interval=5, warmup=0.95, learning_rate=0.5, gradient_clip=0.0)
    folder = trained(config, tmp_path / "run")
    run = read_run(folder.path)
    assert run.best is not None and run.best.step < 40 == run.reports[-1].step
    errors = [report.held_out_error for report in run.held_out]
    best, last = (load_model(path).card.training for path in (folder.best, folder.last))
    assert (best["steps"], best["held_out_error"]) == (run.best.step, min(error for error in errors if error))
    assert (last["steps"], last["held_out_error"]) == (40, errors[-1])


def test_tensorboard_shows_what_the_table_of_metrics_has_also_after_an_interruption(tiny_config, tmp_path) -> None:
    trained(tiny_config, tmp_path / "run", stop_at=20)
    folder = trained(tiny_config, tmp_path / "run")
    reports = read_run(folder.path).reports
    assert [report.step for report in reports] == [10, 20, 30, 40]
    events = EventAccumulator(str(folder.path)).Reload()
    for name in ("loss", "held_out_error", "learning_rate"):
        expected = {report.step: getattr(report, name) for report in reports if getattr(report, name) is not None}
        assert {event.step: event.value for event in events.Scalars(name)} == pytest.approx(expected)


TRACKER = """
from contextlib import contextmanager
import json

@contextmanager
def track(folder, settings):
    with (folder / "tracked.jsonl").open("a") as file:
        file.write(json.dumps(settings["config"]) + "\\n")
        yield lambda step, values: print(json.dumps([step, values]), file=file)
        file.write('"closed"')
"""


def test_a_tracker_of_the_users_own_gets_settings_and_metrics_and_is_closed(tiny_config, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_tracking.py").write_text(TRACKER)
    folder = trained(tiny_config, tmp_path / "run", tracker=load_tracker("my_tracking:track"))
    settings, *reports, end = map(json.loads, (folder.path / "tracked.jsonl").read_text().splitlines())
    assert settings["modes"] == 4 and settings["observation"] == 70 and end == "closed"
    assert [step for step, _ in reports] == [10, 20, 30, 40]
    errors = [values["held_out_error"] for _, values in reports if "held_out_error" in values]
    assert errors == [report.held_out_error for report in read_run(folder.path).held_out]


def test_a_new_run_never_gets_the_name_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "aliengo-fcnet-9").mkdir(parents=True)
    (tmp_path / "runs" / "aliengo-fcnet-notes").mkdir()
    assert [str(new_run("aliengo", "fcnet")) for _ in range(2)] == [f"runs/aliengo-fcnet-{n}" for n in (10, 11)]
    assert str(new_run("../fcnet/Aliengo-v0", "mlp")) == "runs/fcnet-Aliengo-v0-mlp-1"


def test_runs_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = written(tmp_path / "one"), written(tmp_path / "two", policy_type="mlp", parameters=1234)
    compare = ["compare", str(one), str(two)]
    (two / "settings.yaml").write_text("{policy_type: mlp, data: [data], steps: 20, seed: 3}")
    (two / "metrics.csv").write_text(METRICS + "30,0.3,0.0,0.04,4000.0\n")
    (two / "evaluation.json").write_text('{"scenarios": {"flat": {"falls": 3, "episodes": 300, "velocity": []}}}')
    assert main(compare) == 0
    printed = capsys.readouterr().out
    assert re.search(rf"Results +{one} +{two}\n", printed)
    for row in (
        r"policy +fcnet +mlp",
        r"parameters +5 +1,234",
        r"steps +20 of 20 +30 of 20",
        r"time in training +2 s +4,000 s",
        r"last validation error +0\.0300 rad +0\.0400 rad",
        r"lowest validation error( +0\.0300 rad at step 20){2}",
        r"seed +0 +3",
        r"flat +– +3 of 300",
    ):
        assert re.search(row, printed), row
    assert "learning_rate" not in printed  # the settings are equal in it
    assert main([*compare, "--json", str(tmp_path / "runs.json")]) == 0
    facts = json.loads((tmp_path / "runs.json").read_text())
    assert [run["policy_type"] for run in facts] == ["fcnet", "mlp"] and facts[1]["best"]["step"] == 20
    assert facts[1]["evaluation"] == {"flat": {"episodes": 300, "falls": 3}}


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("run.json", None, "is not the folder of a training run"),
        ("run.json", "{", "run.json is damaged"),
        ("run.json", '"\udcff"', "run.json is damaged"),
        ("metrics.csv", METRICS + "much,1,1,1,1\n", "metrics.csv is damaged"),
        ("metrics.csv", "time,loss\n1,2\n", "expected step, loss"),
        ("settings.yaml", "{data: [data], stepps: 20}", "stepps"),
        ("evaluation.json", "[]", "evaluation.json is damaged"),
    ],
)
def test_what_is_no_run_is_an_error(tmp_path: Path, name: str, content: str | None, named: str) -> None:
    path = written(tmp_path / "run")
    if content is None:
        (path / name).unlink()
    else:
        (path / name).write_text(content, errors="surrogateescape")
    with pytest.raises(FcnetError, match=named):
        read_run(path)
