"""The program of the fake board as a user runs it."""

import signal
import subprocess
import sys

import pytest

PROGRAM = "import sys; from unitree_lowlevel.fake_board.program import main; sys.exit(main('aliengo'))"
COMMAND = [sys.executable, "-c", PROGRAM, "--port", "0"]
PATIENCE = 30.0  # [s]
PIPED = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}


def test_it_prints_its_address_executes_typed_commands_and_ends():
    typed = "help\nloss 0.25\npress L2 B\nloss lots\nquit\n"
    ended = subprocess.run(COMMAND, input=typed, timeout=PATIENCE, check=True, **PIPED)
    said = ended.stdout
    for words in (
        *("aliengo, gen33, listens at 127.0.0.1:", "foreign_source ", "faults: loss 0.25\n"),
        *("faults: loss 0.25, remote B L2\n", "loss lots"),
    ):
        assert words in said
        said = said[said.index(words) :]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_faults_can_be_options_it_prints_them_every_second_and_a_signal_ends_it_quietly(number):
    options = ["--loss", "0.1", "--silence", "--tilt", "0.3", "0", "--generation", "gen38"]
    with subprocess.Popen([*COMMAND, *options], stdin=subprocess.PIPE, **PIPED) as program:
        try:
            assert "gen38, listens" in program.stdout.readline()
            status = program.stdout.readline()
            assert status.startswith("commands 0/s")
            assert status.endswith("client none; faults: loss 0.1, silence, tilt (0.3, 0.0)\n")
            program.send_signal(number)
            output = program.communicate(timeout=PATIENCE)[0]
        finally:
            program.kill()
    assert program.returncode == 0
    assert "Traceback" not in output


@pytest.mark.parametrize(("option", "named"), [("--port={taken}", "UDP port"), ("--loss=3", "loss")])
def test_an_option_that_cannot_be_used_ends_it_with_its_name(taken_port, option, named):
    ended = subprocess.run([*COMMAND, option.format(taken=taken_port)], timeout=PATIENCE, **PIPED)
    assert ended.returncode == 1
    assert ended.stdout.startswith(f"fake_board: {named}")
