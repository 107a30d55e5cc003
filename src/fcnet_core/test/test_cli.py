"""The fcnet program: its verbs are found, its errors are sentences, its JSON is for machines."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

from fcnet_core.cli import INTERRUPTED, USAGE_ERROR, VERB_GROUP, main
from fcnet_core.model_file import load_model, save_model
from fcnet_core.robot import SETPOINT_FIELDS


@pytest.fixture
def path(walker, tmp_path):
    save_model(walker, tmp_path / "policy.safetensors")
    return tmp_path / "policy.safetensors"


def test_a_mistyped_verb_is_one_sentence_with_the_one_that_was_meant(capsys) -> None:
    for verb, meant in (("trian", "'train'"), ("xyzzy", "export, info, list")):
        assert main([verb, "--out", "a"]) == USAGE_ERROR
        message = capsys.readouterr().err
        assert verb in message and meant in message and message.count("\n") == 1


def test_list_gives_names_that_other_verbs_take(tmp_path, capsys) -> None:
    assert main(["list", "models"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "aliengo" in names and "aliengo-mlp" in names
    for name in names:
        assert main(["info", name]) == 0
    assert "unlimited" in capsys.readouterr().out  # the memory of a RetNet
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for line in ("models:", "robots:", "policies:", "  a1 ", "  fcnet "):
        assert line in printed
    assert main(["list", "robots", "--json", str(tmp_path / "names.json")]) == 0
    assert {"a1", "aliengo"} <= json.loads((tmp_path / "names.json").read_text())["robots"].keys()


def test_help_lists_every_verb_and_each_has_help_with_an_example(capsys) -> None:
    assert main([]) == USAGE_ERROR
    names = {entry.name for entry in entry_points(group=VERB_GROUP)}
    assert names <= set(re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE))
    for name in names:
        with pytest.raises(SystemExit) as stopped:
            main([name, "--help"])
        assert stopped.value.code == 0 and f"\n  fcnet {name}" in capsys.readouterr().out


def test_info_shows_the_card_as_text_and_as_json(path, walker, capsys) -> None:
    assert main(["info", str(path)]) == 0
    printed = capsys.readouterr().out
    for fact in ("aliengo", "787,852", "50 Hz", "sliding", "kp 60", "FR_hip_joint", "yaw_rate", walker.fingerprint):
        assert fact in printed
    assert main(["info", str(path), "--json", "-"]) == 0
    facts = json.loads(capsys.readouterr().out)
    expected = {"parameters": 787_852, "size_bytes": path.stat().st_size, "fingerprint": walker.fingerprint}
    assert facts.items() >= expected.items() and facts["card"]["shape"]["window"] == 64


def test_info_shows_the_envelope_as_a_table(capsys) -> None:
    envelope = load_model("aliengo").card.interface.commands.envelope
    assert main(["info", "aliengo"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    start = rows.index(["vx", *SETPOINT_FIELDS[1:]]) + 1
    shown = [list(map(float, row)) for row in rows[start : start + len(envelope.vx)]]
    np.testing.assert_allclose([row[0] for row in shown], envelope.vx, atol=0.005)
    np.testing.assert_allclose([row[1:3] for row in shown], envelope.ranges["vy"], atol=0.005)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["info", file] for file in ("nothing", "damaged")),
        *(["export", file, "--onnx", "never.onnx"] for file in ("nothing", "damaged")),
        ["export", "policy", "--weights", "fp16"],
        ["export", "policy", "--format", "2"],
        ["export", "policy", "--onnx", "a", "--out", "b"],
        ["export", "policy", "--onnx", "damaged.safetensors/policy.onnx"],
    ],
)
def test_a_file_that_cannot_be_read_or_written_is_one_sentence(arguments, path, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("damaged.safetensors").write_bytes(path.read_bytes()[:1000])
    verb, file, *options = arguments
    assert main([verb, f"{file}.safetensors", *options]) == USAGE_ERROR
    message = capsys.readouterr().err
    assert message.startswith("fcnet: ") and message.count("\n") == 1
    assert file == "policy" or f"{file}.safetensors" in message
    assert sorted(tmp_path.iterdir()) == [tmp_path / "damaged.safetensors", path]


def test_a_defect_keeps_its_traceback(path, monkeypatch) -> None:
    def defect(values: object) -> str:
        return str(np.zeros(3) + np.zeros(4))

    monkeypatch.setattr("fcnet_core.verbs.info.brief", defect)
    with pytest.raises(ValueError, match="broadcast"):
        main(["info", str(path)])


def test_ctrl_c_is_one_sentence_and_status_130() -> None:
    """A signal just before a sleep begins does not end the sleep, so the program sleeps many times."""
    program = (
        "import sys, time, fcnet_core.verbs.info as info\n"
        "info.load_model = lambda path: (print('ready', flush=True), [time.sleep(0.01) for _ in range(6000)])\n"
        "from fcnet_core.cli import main\nsys.exit(main(['info', sys.argv[1]]))\n"
    )
    command, pipe = [sys.executable, "-c", program, "policy"], subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=30)
    assert (process.returncode, message) == (INTERRUPTED, "fcnet: interrupted; what was already written is kept\n")


def test_a_closed_pipe_ends_it_quietly(path) -> None:
    program = "import sys; from fcnet_core.cli import main; sys.exit(main(['info', sys.argv[1]]))"
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-u", "-c", program, str(path)]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (result.stderr, result.returncode) == ("", 1)


def test_export_writes_weights_in_half_precision_once(path, tmp_path) -> None:
    out = tmp_path / "half.safetensors"
    assert main(["export", str(path), "--weights", "fp16", "-o", str(out)]) == 0
    assert load_model(out).half
    assert out.stat().st_size < 0.7 * path.stat().st_size
    assert main(["export", str(out), "--weights", "fp16", "-o", str(path)]) == USAGE_ERROR  # it is already
