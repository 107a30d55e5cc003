from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Finish = Callable[..., tuple[int, str]]
Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[[str], str]

# Writes every signal that it gets and ends on those named in `ends_on`.
LISTENER = """
import signal, sys, time
def note(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    if signal.Signals(number).name in {ends_on}:
        sys.exit(0)
signal.signal(signal.SIGINT, note)
signal.signal(signal.SIGTERM, note)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


def listener(*ends_on: str, more: str = "") -> str:
    return f"python({LISTENER.format(ends_on=ends_on)!r}, name='listener'{more}),"


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"{text!r} was never printed")


def ended(pid: int) -> bool:
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("entity", "expected", "words"),
    [
        ("python(\"print('one'); print('two')\", name='speaker')", 0, "[speaker-1] one\n[speaker-1] two\n"),
        ("python('pass')", 0, "process has finished cleanly"),
        ("python('exit(3)')", 0, "process has died"),
        ("ExecuteProcess(cmd=['/no/such/program'])", 1, "/no/such/program"),
    ],
    ids=["lines carry name and number", "good end", "a failure without a handler", "a program that does not exist"],
)
def test_the_exit_code_and_output_of_a_launch(
    finish: Finish, launch_file: Write, entity: str, expected: int, words: str
):
    code, output = finish("launch", launch_file(entity))
    assert (code, words in output) == (expected, True)


def test_ctrl_c_reaches_every_process_once_and_is_no_failure(start: Start, launch_file: Write):
    process = start("launch", launch_file(listener("SIGINT")))
    wait_for_line(process, "[listener-1] ready")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert output.count("got SIGINT") == 1


def test_a_second_ctrl_c_is_ignored_while_processes_end(start: Start, launch_file: Write):
    process = start("launch", launch_file(listener("SIGTERM", more=", sigterm_timeout='1'")))
    wait_for_line(process, "[listener-1] ready")
    process.send_signal(signal.SIGINT)
    wait_for_line(process, "got SIGINT")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert "again, ignoring" in output
    assert (output.count("got SIGINT"), output.count("got SIGTERM")) == (0, 1)


def test_a_process_that_ignores_sigint_gets_sigterm_and_then_sigkill(start: Start, launch_file: Write):
    process = start("launch", launch_file(listener(more=", sigterm_timeout='1', sigkill_timeout='1'")))
    wait_for_line(process, "[listener-1] ready")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    steps = ["got SIGINT", "escalating to 'SIGTERM'", "got SIGTERM", "escalating to 'SIGKILL'", "exit code -9"]
    assert [output.find(step) >= 0 for step in steps] == [True] * len(steps)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_the_launching_program_leaves_no_process_behind(
    start: Start, launch_file: Write, number: signal.Signals
):
    process = start("launch", launch_file(listener("SIGINT")))
    line = wait_for_line(process, "process started with pid")
    wait_for_line(process, "ready")
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 1
    assert ended(int(line.split("[")[-1].rstrip("]\n")))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 1), (signal.SIGHUP, 1)])
def test_a_launch_whose_output_nobody_reads_any_longer_ends_its_processes(
    start: Start, launch_file: Write, number: signal.Signals, code: int
):
    process = start("launch", launch_file(listener("SIGINT")))
    line = wait_for_line(process, "process started with pid")
    wait_for_line(process, "ready")
    assert process.stdout is not None
    process.stdout.close()
    process.send_signal(number)
    assert process.wait(20) == code
    assert ended(int(line.split("[")[-1].rstrip("]\n")))


def test_a_process_that_prints_runs_on_when_nobody_reads_its_launch(start: Start, launch_file: Write, tmp_path: Path):
    done = tmp_path / "done"
    code = f"import pathlib\nfor _ in range(20000): print('x' * 100)\npathlib.Path({str(done)!r}).touch()"
    process = start("launch", launch_file(f"python({code!r})"))
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(60) == 0
    assert done.exists()


@pytest.mark.parametrize(
    ("exit_code", "on_exit", "expected"), [(0, "Shutdown(reason='required')", 0), (0, "failing", 0), (3, "failing", 1)]
)
def test_the_handler_of_a_process_ends_the_others_and_fails_the_launch_if_it_raises(
    finish: Finish, launch_file: Write, exit_code: int, on_exit: str, expected: int
):
    entities = listener("SIGINT") + f"python('import time; time.sleep(1); exit({exit_code})', on_exit={on_exit}),"
    code, output = finish("launch", launch_file(entities))
    assert (code, "got SIGINT" in output) == (expected, True)


def test_environment_of_a_process(finish: Finish, launch_file: Write):
    show = "import os; print(os.environ.get('A'), os.environ.get('B'))"
    entities = f"""
        python("{show}", additional_env={{"B": "own"}}, on_exit=[python("{show}")]),
    """
    output = finish("launch", launch_file(entities), A="outer", B="given")[1]
    assert "outer own" in output
    assert "outer given" in output


def test_output_log_shows_only_the_error_stream(finish: Finish, launch_file: Write):
    code = "import sys; print('quiet'); print('loud', file=sys.stderr)"
    output = finish("launch", launch_file(f'ExecuteProcess(cmd=[sys.executable, "-c", "{code}"])'))[1]
    assert "-1] loud" in output
    assert "-1] quiet" not in output
