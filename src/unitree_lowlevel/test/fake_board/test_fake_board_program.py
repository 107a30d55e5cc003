"""The program of the fake board as a user runs it."""

import re
import signal
import socket
import subprocess
import sys

import pytest

PROGRAM = "import sys; from unitree_lowlevel.fake_board.program import main; sys.exit(main('aliengo'))"
PATIENCE = 30.0  # [s]


class Typing:
    """A running program, a keyboard before it, and what it prints."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-c", PROGRAM, *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"it ended without saying {pattern}")

    def __enter__(self):
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_it_prints_its_address_executes_typed_commands_and_ends():
    with Typing("--port", "0") as program:
        program.until(r"aliengo, gen33, listens at 127\.0\.0\.1:\d+")
        program.until(r"commands 0/s.*client none; no faults")
        program.type("help")
        program.until(r"foreign_source +\w")
        program.type("loss 0.25")
        program.until(r"faults: loss 0.25")
        program.type("press L2 B")
        program.until(r"faults: loss 0.25, remote B L2")
        program.type("loss lots")
        program.until("loss lots")
        program.type("quit")
        assert program.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_faults_can_be_options_and_a_signal_ends_it_quietly(number):
    with Typing("--port", "0", "--loss", "0.1", "--silence", "--tilt", "0.3", "0", "--generation", "gen38") as program:
        program.until("gen38, listens")
        program.until(r"faults: loss 0.1, silence, tilt \(0.3, 0.0\)")
        program.process.send_signal(number)
        output = program.process.communicate(timeout=PATIENCE)[0]
        assert program.process.returncode == 0
        assert "Traceback" not in output


@pytest.mark.parametrize(("option", "named"), [("--port={taken}", "UDP port"), ("--loss=3", "loss")])
def test_an_option_that_cannot_be_used_ends_it_with_its_name(option, named):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with Typing("--port", "0", option.format(taken=taken.getsockname()[1])) as program:
            program.until(f"fake_board: {named}")
            assert program.process.wait(PATIENCE) == 1
