"""Faults as a user types them, the program that takes them, and one direction of an unreliable line."""

import math
import signal
import subprocess
import sys

import pytest

from unitree_lowlevel.codec import RemoteState
from unitree_lowlevel.fake_board.faults import OVERTAKEN, BoardFaults, Channel, changed_faults, fault_fields

PACKETS = 2000
PERIOD = 0.002
PROGRAM = "import sys; from unitree_lowlevel.fake_board.program import main; sys.exit(main('aliengo'))"
COMMAND = [sys.executable, "-c", PROGRAM, "--port", "0"]
PATIENCE = 30.0  # [s]
PIPED = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}


def _after(*lines: str) -> BoardFaults:
    faults = BoardFaults()
    for line in lines:
        faults = changed_faults(faults, line.split())
    return faults


@pytest.mark.parametrize(
    ("lines", "faults"),
    [
        (["loss 0.1"], BoardFaults(loss=0.1)),
        (["silence on"], BoardFaults(silence=True)),
        (["tilt 1.2 -0.3"], BoardFaults(tilt=(1.2, -0.3))),
        (["temperature 90"], BoardFaults(temperature=90.0)),
        (["blocked_joint RR_calf_joint"], BoardFaults(blocked_joint="RR_calf_joint")),
        (["dead_motor FL_hip_joint"], BoardFaults(dead_motor="FL_hip_joint")),
        (["press L2 B"], BoardFaults(remote=RemoteState(frozenset({"L2", "B"})))),
        (["press L2 B", "release B"], BoardFaults(remote=RemoteState(frozenset({"L2"})))),
        (["press L2 B", "release"], BoardFaults()),
        (["stick lx 0.5"], BoardFaults(remote=RemoteState(lx=0.5))),
        (["loss 0.1", "silence on", "press A", "clear"], BoardFaults(remote=RemoteState(frozenset({"A"})))),
        *(([f"{fault.name} off"], BoardFaults()) for fault in fault_fields()),
    ],
    ids=str,
)
def test_lines_switch_faults_on_and_off(lines, faults):
    assert _after(*lines) == faults


@pytest.mark.parametrize(
    "line",
    [
        *("lost 0.1", "loss many", "loss 2", "loss nan", "delay -1", "silence perhaps", "silence", "tilt 1"),
        *("tilt inf 0", "temperature 200", "temperature nan", "blocked_joint tail", "joint_offset nan"),
        *("press Z", "stick up 1", "stick lx far", "stick lx 2"),
    ],
)
def test_wrong_words_are_refused_by_name(line):
    with pytest.raises(ValueError, match=line.split()[-1 if line.startswith("press") else 0]):
        _after(line)


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
    assert program.returncode == 0, output
    assert "Traceback" not in output


@pytest.mark.parametrize(("option", "named"), [("--port={taken}", "UDP port"), ("--loss=3", "loss")])
def test_an_option_that_cannot_be_used_ends_it_with_its_name(taken_port, option, named):
    ended = subprocess.run([*COMMAND, option.format(taken=taken_port)], timeout=PATIENCE, **PIPED)
    assert ended.returncode == 1
    assert ended.stdout.startswith(f"fake_board: {named}")


def _carried(faults: BoardFaults, seed: int = 0) -> list[tuple[float, int]]:
    """What comes out, and when, of packets 0, 1, 2, ... put in every 2 ms; looked at every 0.1 ms."""
    line: Channel[int] = Channel(seed)
    arrived: list[tuple[float, int]] = []
    for packet in range(PACKETS):
        line.put(packet, packet * PERIOD, faults)
        for look in range(20):
            now = packet * PERIOD + look * PERIOD / 20
            arrived += [(now, each) for each in line.take(now)]
    return arrived + [(math.inf, each) for each in line.take(math.inf)]


@pytest.mark.parametrize(
    ("faults", "shortest", "longest"),
    [(BoardFaults(), 0.0, 0.0), (BoardFaults(delay=0.011), 0.011, 0.011), (BoardFaults(jitter=0.01), 0.0, 0.01)],
    ids=str,
)
def test_a_delay_is_kept_and_jitter_is_spread_evenly_over_its_range(faults, shortest, longest):
    late = [time - packet * PERIOD for time, packet in _carried(faults) if math.isfinite(time)]
    assert shortest - 1e-9 <= min(late) < shortest + 0.001
    assert longest - 0.001 < max(late) < longest + 0.0002
    assert sum(late) / len(late) == pytest.approx((shortest + longest) / 2, rel=0.1)


@pytest.mark.parametrize(
    ("faults", "arrived", "different"),
    [
        (BoardFaults(), 1.0, 1.0),
        (BoardFaults(loss=0.2), 0.8, 0.8),
        (BoardFaults(duplicates=0.2), 1.2, 1.0),
        (BoardFaults(reordering=0.1), 1.0, 1.0),
    ],
    ids=str,
)
def test_loss_duplicates_and_overtaking_keep_their_shares(faults, arrived, different):
    order = [packet for _, packet in _carried(faults)]
    assert len(order) == pytest.approx(arrived * PACKETS, rel=0.05 if arrived != 1.0 else 0.0)
    assert len(set(order)) == pytest.approx(different * PACKETS, rel=0.05 if different != 1.0 else 0.0)
    overtaken = sum(later < max(order[:place], default=-1) for place, later in enumerate(order))
    assert overtaken == pytest.approx(faults.reordering * PACKETS, rel=0.3)
    assert OVERTAKEN > 2 * PERIOD


def test_chance_is_the_same_for_the_same_seed():
    faults = BoardFaults(loss=0.1, duplicates=0.1, reordering=0.1, jitter=0.003)
    assert _carried(faults, seed=3) == _carried(faults, seed=3)
    assert _carried(faults, seed=3) != _carried(faults, seed=4)
