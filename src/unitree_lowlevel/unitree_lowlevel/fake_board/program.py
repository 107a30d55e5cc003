"""The program `fake_board`: an emulated motor board with faults that typed commands switch on and off."""

import argparse
import gc
import signal
import sys
import threading
from collections.abc import Sequence

from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import GENERATIONS
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.faults import NONE, changed_faults, fault_fields
from unitree_lowlevel.fake_board.physics import JointPhysics

DESCRIPTION = """Emulate the motor board of {robot}: Unitree's low-level protocol over UDP with 12 independent joints.
Set faults by options, or type them while it runs: `help` lists them."""
HELP = """Typed commands:
  <fault> <value>, or <fault> off; the faults:
{faults}
  clear                switch all of these off
  press L2 B           hold buttons of the remote; release [L2 B] releases them
  stick lx 0.5         move a stick: lx ly rx ry L2, -1 to 1
  restart              restart as after a power cycle
  quit"""
STATUS_PERIOD = 1.0  # [s]


def main(robot: str, arguments: Sequence[str] | None = None) -> int:
    """Run a board for the robot called `robot` until a signal or `quit`; return the exit code."""
    options = _parser(robot).parse_args(arguments)
    try:
        faults = NONE
        for fault in fault_fields():  # an option without a value switches its fault on
            if (words := getattr(options, fault.name)) is not None:
                faults = changed_faults(faults, [fault.name, *(words or ["on"])])
        board = FakeBoard(
            GENERATIONS[options.generation],
            JointPhysics(load_robot(robot), seed=options.seed),
            (options.address, options.port),
            faults=faults,
            free_running=not options.answer_only,
            seed=options.seed,
        )
    except ValueError as error:
        print(f"fake_board: {error}", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: board.request_stop())
    where = "{}, {}, listens at {}:{}".format(robot, board.generation.name, *board.address)
    print(f"fake_board: {where}; type help for its faults", flush=True)
    # A thread that is left behind must not hold the lock of a stream: Python would end with a fatal error.
    if sys.stdin:
        threading.Thread(target=_execute_lines, args=(board, sys.stdin.fileno()), daemon=True).start()
    ended = threading.Event()
    reports = threading.Thread(target=_report, args=(board, ended))
    reports.start()
    gc.collect()
    gc.freeze()  # later collections skip the existing objects and stay short
    try:
        board.run()
    finally:
        board.stop()
        ended.set()
        reports.join()
    return 0


def _parser(robot: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fake_board", description=DESCRIPTION.format(robot=robot))
    parser.add_argument("--address", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8007, help="UDP port, 0 for a free one (default: %(default)s)")
    parser.add_argument("--generation", choices=sorted(GENERATIONS), default="gen33", help="wire format (%(default)s)")
    parser.add_argument("--answer-only", action="store_true", help="one state per command instead of 500 per second")
    parser.add_argument("--seed", type=int, default=0, help="seed of random faults and noise (%(default)s)")
    for fault in fault_fields():
        name, kind = "--" + fault.name.replace("_", "-"), fault.metadata["kind"]
        parser.add_argument(name, nargs="*", metavar="VALUE", help=f"{fault.metadata['help']}; {kind.takes}")
    return parser


def _execute_lines(board: FakeBoard, file: int) -> None:
    with open(file, "rb", buffering=0, closefd=False) as lines:
        for line in lines:
            words = line.decode(errors="replace").split()
            if words == ["help"]:
                faults = "\n".join(f"    {fault.name:<17} {fault.metadata['help']}" for fault in fault_fields())
                print(HELP.format(faults=faults), flush=True)
            elif words == ["quit"]:
                board.request_stop()
            elif words == ["restart"]:
                board.restart()
            elif words:
                try:
                    board.faults = changed_faults(board.faults, words)
                    print(f"fake_board: {board.faults}", flush=True)
                except ValueError as error:
                    print(f"fake_board: {error}", flush=True)


def _report(board: FakeBoard, ended: threading.Event) -> None:
    commands = states = 0
    while not ended.wait(STATUS_PERIOD):
        log, client = board.commands, "none" if board.client is None else "{}:{}".format(*board.client)
        print(
            f"commands {max(0, log.count - commands)}/s, states {board.states_sent - states}/s, "
            f"bad {sum(log.bad.values())}, real time {board.real_time_factor():.2f}, lost {board.time_lost:.2f} s, "
            f"client {client}; {board.faults}",
            flush=True,
        )
        commands, states = log.count, board.states_sent
