"""`fcnet evaluate`: a table, a file that is continued, errors for wrong use, and a model card as the hub reads it."""

import json
import math
from dataclasses import replace
from typing import get_args

import pytest
from huggingface_hub import ModelCard
from msgspec import structs

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.learning.config import TrainConfig
from fcnet_core.learning.runs import RunFacts, RunFolder, TrainingRun, read_run
from fcnet_core.model_file import load_model, save_model, shipped_model
from fcnet_core.observation import SensorModel
from fcnet_core.robot import load_robot
from quadruped_sim.evaluation.gait_quality import no_sums, quality
from quadruped_sim.evaluation.results import (
    COLUMNS,
    MET,
    Evaluation,
    Subject,
    card_head,
    mean_return,
    read_evaluation,
    row,
    summary,
)
from quadruped_sim.evaluation.scenarios import ALL_COMMANDS, scenarios
from quadruped_sim.evaluation.score import Score
from quadruped_sim.physics.terrain import Flat
from quadruped_sim.render.trajectory import parse_phase, trajectory_of_policy

MODELS = shipped_model("a1").parent
FEW = ["--scenarios", "stand,flat", "--episodes", "2", "--processes", "1"]


def test_expert_and_policy_stand_side_by_side_and_the_number_of_processes_changes_nothing(policy, tmp_path, capsys):
    """The policy is the best of a training run, in whose folder its results are kept."""
    expert, folder, again = tmp_path / "expert.json", RunFolder(tmp_path / "run"), tmp_path / "again.json"
    folder.path.mkdir()
    policy.rename(folder.best)
    facts = RunFacts("aliengo", "fcnet", 5, 20, "fcnet train")
    folder.write(TrainingRun("run", facts, TrainConfig(data=("data",), steps=20), []))
    of_expert = ["evaluate", "--expert", *FEW, "--json", str(expert)]
    assert main(of_expert) == 0
    first = expert.read_bytes()
    assert main(of_expert) == 0  # nothing is left to do
    assert expert.read_bytes() == first
    assert main(["evaluate", str(folder.path), "--baseline", str(expert), *FEW]) == 1  # it stands still
    printed = capsys.readouterr()
    assert "fcnet: flat missed: vx" in printed.err
    assert "stand " in printed.out and "0 of 2" in printed.out and "Mean return" in printed.out
    table = (folder.path / "evaluation.md").read_text()
    assert {name: score.episodes for name, score in read_run(folder.path).evaluation.items()} == {
        "flat, board sensors": 2,
        "stand, board sensors": 2,
    }
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| flat")]
    assert table.startswith("---\nlicense: ") and "| scenario | slip |" in table
    assert rows[0][1] == "0 of 2" and rows[0][2].endswith("of 2")  # of the expert, and of the policy
    assert float(rows[0][9].rstrip("%")) < 90
    assert rows[0][10].startswith("missed: ") and " vx " in rows[0][10]
    assert "of the expert's (target 99%: missed)" in table
    two = [str(folder.best), *FEW[:-1], "2", "--json", str(again)]
    assert main(["evaluate", *two, "--no-fail"]) == 0
    assert again.read_bytes() == (folder.path / "evaluation.json").read_bytes()
    facts = json.loads(again.read_text())
    expected = {"robot": "aliengo", "seed": 0, "episodes": 2, "teacher": None, "sensors": "board"}
    assert facts["subject"] == expected | {"policy": facts["subject"]["policy"]}
    assert facts["scenarios"].keys() == {"flat", "stand"}


def score(mean_return, falls=0):
    """Of three episodes in which nothing was measured."""
    none, gait = (math.nan,) * 3, quality(no_sums(3))
    return Score(3, falls, 2, falls and 2, none, none, math.nan, None, mean_return, 1.0, gait)


def test_mean_return_leaves_out_scenarios_of_all_commands_and_an_expert_that_earned_nothing_is_no_measure():
    def scores(**returns):
        return {name: score(mean) for name, mean in returns.items()}

    policy, expert = scores(flat=9.0, corners=9.0, tilt=9.0), scores(flat=10.0, corners=1.0, random_5min=1.0)
    assert mean_return(policy, expert) == pytest.approx(0.9)
    assert "90.0%" in summary(policy, expert)
    assert mean_return(scores(corners=1.0), expert) is None and summary(scores(corners=1.0), expert) == ""
    known = scenarios(load_robot("aliengo"))
    assert set(ALL_COMMANDS) < set(known)
    assert row(known["flat"], score(0.0), score(0.0))[9] == "-"
    assert mean_return(scores(flat=0.0), scores(flat=0.0)) is None


def test_interrupted_it_continues(tmp_path, monkeypatch, capsys):
    results, write = tmp_path / "expert.json", Evaluation.write
    arguments = ["evaluate", "--expert", *FEW, "--json", str(results)]

    def write_and_interrupt(evaluation, path):
        write(evaluation, path)
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Evaluation, "write", write_and_interrupt)
        assert main(arguments) == 130
    assert capsys.readouterr().err.splitlines()[-1].startswith("fcnet: stopped after 1 ")
    before = json.loads(results.read_text())["scenarios"]
    assert main(arguments) == 0
    printed, after = capsys.readouterr().out, json.loads(results.read_text())["scenarios"]
    assert (len(before), len(after)) == (1, 2) and before.items() <= after.items()
    assert sum(line.startswith(("stand", "flat")) for line in printed.splitlines()) == 2


def test_errors_of_robots_that_fell_at_once_are_null_in_the_file_and_no_number_when_read(tmp_path):
    file, subject = tmp_path / "expert.json", Subject("aliengo", None, 0, 3)
    fell = structs.replace(score(0.1, falls=3), attitude=(math.nan, math.nan))
    Evaluation(subject=subject, scenarios={"flat": fell}).write(file)
    assert json.loads(file.read_text())["scenarios"]["flat"]["velocity"] == [None] * 3
    found = read_evaluation(file)
    flat = found.scenarios["flat"]
    assert found.subject == subject
    assert all(map(math.isnan, (*flat.velocity, flat.height, *flat.attitude, flat.gait.duty)))


def test_getting_up_is_measured_if_it_is_named_and_listed_with_what_every_scenario_asks(capsys):
    arguments = ["a1", "--scenarios", "recovery,stand_up", "--episodes", "2", "--json", "-", "--processes", "1"]
    assert main(["evaluate", *arguments]) == 0
    scores = json.loads(capsys.readouterr().out)["scenarios"]
    assert [(scores[name]["episodes"], scores[name]["falls"]) for name in ("recovery", "stand_up")] == [(2, 0)] * 2
    assert main(["evaluate", "--list"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 39 + 2
    assert "stairs_10cm_down" in printed and "falls <= 1.0%" in printed


@pytest.mark.parametrize("rate", [30.0, 100.0])
def test_policies_of_other_rates_are_evaluated_and_rendered(rate, standing_policy, tmp_path, capsys):
    card = structs.replace(standing_policy.card, interface=structs.replace(standing_policy.card.interface, rate=rate))
    model = tmp_path / "other.safetensors"
    save_model(replace(standing_policy, card=card), model)
    few = ["--scenarios", "flat", "--episodes", "2", "--processes", "1", "--json", "-", "--no-fail"]
    assert main(["evaluate", str(model), *few]) == 0
    score = json.loads(capsys.readouterr().out)["scenarios"]["flat"]
    assert score["falls"] == 0 and score["height"] < 0.05
    shown = trajectory_of_policy(load_robot("aliengo"), load_model(model), Flat(), [parse_phase("1:")])
    assert (len(shown), shown.period) == (round(rate), 1 / rate)


def test_wrong_use_is_refused_in_a_sentence(policy, tmp_path, capsys):
    (tmp_path / "broken.json").write_text('{"format_version": 2, "subject"')
    (tmp_path / "other.json").write_text(
        '{"format_version": 2, "subject": {"robot": "a1", "policy": null, "seed": 1, "episodes": 3}, "scenarios": {}}'
    )
    for option in ("--episodes", "--processes"):
        with pytest.raises(SystemExit) as ended:
            main(["evaluate", "--expert", option, "0"])
        assert ended.value.code == USAGE_ERROR and option in capsys.readouterr().err
    for arguments, named in (
        ([], "MODEL"),
        (["--expert", "--scenarios", "flat,moon"], "moon"),
        (["--expert", "--markdown", str(tmp_path)], str(tmp_path)),
        (["--expert", "--json", str(tmp_path / "broken.json")], "broken.json"),
        (["--expert", "--json", str(tmp_path / "other.json")], "another robot, seed, episodes"),
        ([str(policy), "--robot", "a1"], "a1"),
        ([str(policy), "--baseline", str(tmp_path / "none.json")], "none.json"),
        ([str(policy), "--baseline", str(tmp_path / "other.json")], "other.json"),
    ):
        assert main(["evaluate", *arguments]) == USAGE_ERROR
        assert named in capsys.readouterr().err


def test_results_of_other_sensors_are_not_continued_compared_or_mixed(policy, tmp_path, capsys):
    white, board, expert = (tmp_path / f"{name}.json" for name in ("white", "board", "expert"))
    few = ["--scenarios", "stand", "--episodes", "2", "--processes", "1", "--no-fail"]
    assert main(["evaluate", "--expert", *few, "--sensors", "white", "--json", str(expert)]) == 0
    for sensors, file in (("white", white), ("board", board)):
        table = ["--markdown", str(file.with_suffix(".md"))]
        assert main(["evaluate", str(policy), *few, "--sensors", sensors, "--json", str(file), *table]) == 0
        made = file.with_suffix(".md").read_text()
        assert f"\nsensors: {sensors}\n" in made and f"Sensors: {sensors} " in made
        assert read_evaluation(file).subject.sensors == sensors
    capsys.readouterr()
    assert main(["evaluate", str(policy), *few, "--json", str(white)]) == USAGE_ERROR
    assert "another sensors" in capsys.readouterr().err
    assert main(["evaluate", str(policy), *few, "--baseline", str(expert)]) == USAGE_ERROR
    assert "board sensors" in capsys.readouterr().err
    assert main(["evaluate", str(policy), "--scenarios", "recovery", "--sensors", "white"]) == USAGE_ERROR
    assert "recovery" in capsys.readouterr().err
    old = json.loads(white.read_text())  # of a release that had no others
    del old["subject"]["sensors"]
    white.write_text(json.dumps(old))
    assert main(["evaluate", str(policy), *few, "--sensors", "white", "--json", str(white)]) == 0


@pytest.mark.parametrize("name", ["aliengo", "a1"])
def test_a_cards_head_is_the_one_that_is_written_and_its_table_has_every_scenario(name) -> None:
    text, card = (MODELS / f"{name}.md").read_text(), load_model(name).card
    data = ModelCard(text).data  # as the hub's own library reads it
    assert data.sensors in get_args(SensorModel)
    assert text.startswith(card_head([card.interface.name, card.policy_type], data.sensors))
    assert (data.license, data.library_name, data.pipeline_tag) == ("apache-2.0", "fcnet", "robotics")
    assert data.tags == ["robotics", "legged-robot", name, "fcnet"]
    lines = text.partition(f"| {' | '.join(COLUMNS)} |\n")[2].partition("\n\n")[0].splitlines()[1:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    assert [line[0] for line in cells] == list(scenarios(load_robot(name)))
    met = sum(line[-1] == MET for line in cells)
    assert f"{met} of {len(cells)} scenarios meet their target" in text
