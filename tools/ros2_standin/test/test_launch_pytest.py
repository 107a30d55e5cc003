"""Launch tests as upstream's launch_pytest runs them: in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = """
import sys, threading, time
import launch, launch_pytest, pytest
from launch.actions import ExecuteProcess
from launch_pytest.tools import process as process_tools

def python(code):
    return ExecuteProcess(cmd=[sys.executable, "-u", "-c", code], cached_output=True, output="screen")

def until_it_has_said_hello(process):
    deadline = time.monotonic() + 30
    while process.get_stdout() != "hello\\n":
        assert time.monotonic() < deadline
        time.sleep(0.05)

SERVE = "import time, sys; print('hello'); print('alas', file=sys.stderr); time.sleep({seconds})"
"""


@pytest.fixture
def run_tests(tmp_path: Path) -> Callable[[str], tuple[dict[str, int], str]]:
    """Run tests with this text; give how many ended how, and the output."""

    def run(text: str) -> tuple[dict[str, int], str]:
        (tmp_path / "test_some.py").write_text(HEAD + text)
        command = [sys.executable, "-m", "pytest", "-p", "launch_pytest.plugin", "-p", "no:cacheprovider", "-ra"]
        alone = {"PY_COLORS": "0", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        ended = subprocess.run(
            [*command, str(tmp_path)], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=os.environ | alone
        )
        words = ended.stdout.splitlines()[-1].strip("= ").split(" in ")[0].replace(",", "").split()
        return dict(zip(words[1::2], map(int, words[::2]), strict=True)), ended.stdout

    return run


def test_a_test_runs_beside_its_launch_and_its_rest_after_the_end(run_tests: Callable):
    found, output = run_tests("""
@pytest.fixture
def served():
    return python(SERVE.format(seconds=1000))

@launch_pytest.fixture
def description(served):
    return launch.LaunchDescription([served, launch_pytest.actions.ReadyToTest()])

@pytest.mark.launch(fixture=description)
def test_output_and_end(served, launch_context):
    assert threading.current_thread() is not threading.main_thread()

    until_it_has_said_hello(served)
    assert served.return_code is None
    yield
    assert served.return_code == -2
    assert "alas" in served.get_stderr()

@pytest.mark.launch(fixture=description)
def test_that_fails(served, launch_context):
    assert process_tools.wait_for_exit_sync(launch_context, served, timeout=0.2)
""")
    assert found == {"passed": 1, "failed": 1}, output


def test_a_test_runs_after_the_end_of_a_launch_that_ends_by_itself(run_tests: Callable):
    found, output = run_tests("""
@launch_pytest.fixture(auto_shutdown=False)
def description(request):
    request.node.process = python(SERVE.format(seconds=1))
    return launch.LaunchDescription([request.node.process])

@pytest.mark.launch(fixture=description, shutdown=True)
def test_after_the_end(request):
    assert request.node.process.return_code == 0

@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.launch(fixture=description)
def test_beside(request, launch_context, number):
    process = request.node.process
    until_it_has_said_hello(process)
    assert process_tools.wait_for_exit_sync(launch_context, process, timeout=30)
    assert process.return_code == 0
""")
    assert found == {"passed": 3}, output


@pytest.mark.parametrize(
    ("text", "found", "sentence"),
    [
        (
            "@launch_pytest.fixture\ndef description():\n"
            "    return launch.LaunchDescription([ExecuteProcess(cmd=['/no/such'])])\n"
            "@pytest.mark.launch(fixture=description)\ndef test_it(): pass",
            {"passed": 1, "error": 1},
            "the launch has failed",
        ),
        (
            "@launch_pytest.fixture\ndef description():\n    return [1]\n"
            "@pytest.mark.launch(fixture=description)\ndef test_it(): pass",
            {"error": 1},
            "returns no LaunchDescription",
        ),
        ("@pytest.mark.launch()\ndef test_it(): pass", {"error": 1}, "takes the argument fixture"),
        (
            "@launch_pytest.fixture(scope='module')\ndef description():\n    return launch.LaunchDescription([])",
            {"error": 1},
            "unexpected keyword argument 'scope'",
        ),
    ],
)
def test_a_wrong_launch_test_is_refused(run_tests: Callable, text: str, found: dict[str, int], sentence: str):
    counts, output = run_tests(text)
    assert counts == found, output
    assert sentence in output
