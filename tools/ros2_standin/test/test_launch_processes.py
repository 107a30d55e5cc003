import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

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


SHOW = "import os; print(os.environ.get('A'), os.environ.get('B'))"
BOTH = "import sys; print('quiet'); print('loud', file=sys.stderr)"


@pytest.mark.parametrize(
    ("entity", "expected", "words"),
    [
        ("python(\"print('one'); print('two')\", name='speaker')", 0, ["[speaker-1] one\n[speaker-1] two\n"]),
        ("python('pass')", 0, ["process has finished cleanly"]),
        ("python('exit(3)')", 0, ["process has died"]),
        ("ExecuteProcess(cmd=['/no/such/program'])", 1, ["/no/such/program"]),
        (f'python("{SHOW}", additional_env={{"B": "o"}}, on_exit=[python("{SHOW}")])', 0, ["outer o\n", "outer given"]),
        (f'ExecuteProcess(cmd=[sys.executable, "-c", "{BOTH}"])', 0, ["-1] loud"]),  # the log is the error stream
        ("python(\"print('22 \u00b0')\", name='speaker')", 0, ["[speaker-1] 22 ?"]),  # as the terminal can show it
    ],
)
def test_the_exit_code_and_output_of_a_launch(finish, launch_file, entity, expected, words):
    code, output = finish("launch", launch_file(entity), A="outer", B="given", PYTHONIOENCODING="ascii")
    assert code == expected and all(word in output for word in words), output
    assert "-1] quiet" not in output


@pytest.fixture
def listening(start, launch_file, until_printed) -> Callable[..., tuple[subprocess.Popen[str], int]]:
    """Launch a listener; return the launch and the listener's process id."""

    def launch(*ends_on: str, more: str = "") -> tuple[subprocess.Popen[str], int]:
        process = start("launch", launch_file(listener(*ends_on, more=more)))
        line = until_printed(process, "process started with pid")
        until_printed(process, "[listener-1] ready")
        return process, int(line.split("[")[-1].rstrip("]\n"))

    return launch


def test_a_second_ctrl_c_is_ignored_and_who_ignores_sigint_gets_sigterm_and_sigkill(listening, until_printed):
    process, _ = listening(more=", sigterm_timeout='1', sigkill_timeout='1'")
    process.send_signal(signal.SIGINT)
    until_printed(process, "got SIGINT")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    steps = ["again, ignoring", "escalating to 'SIGTERM'", "got SIGTERM", "escalating to 'SIGKILL'", "exit code -9"]
    places = [output.find(step) for step in steps]
    assert min(places) >= 0 and places == sorted(places), output
    assert (process.returncode, "got SIGINT" in output) == (0, False)


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 1), (signal.SIGHUP, 1)])
def test_ending_a_launch_ends_every_process_by_one_signal_also_when_nobody_reads_its_output(
    listening, number, code, read
):
    process, listener = listening("SIGINT")
    if not read:
        process.stdout.close()
    process.send_signal(number)
    assert process.wait(20) == code
    assert not Path(f"/proc/{listener}").exists()
    assert not read or process.stdout.read().count("got SIGINT") == 1


@pytest.mark.parametrize(("ended", "handler", "code"), [(0, "Shutdown()", 0), (0, "failing", 0), (3, "failing", 1)])
def test_the_handler_of_a_process_ends_the_others_and_fails_the_launch_if_it_raises(
    finish, launch_file, ended, handler, code
):
    entities = listener("SIGINT") + f"python('import time; time.sleep(1); exit({ended})', on_exit={handler}),"
    returned, output = finish("launch", launch_file(entities))
    assert (returned, "got SIGINT" in output) == (code, True)
