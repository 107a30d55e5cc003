"""The doctor: looks at the way to a robot and at the robot, and says in one line each what it has found.

Nothing moves: all it sends are commands with the motors off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from fcnet_core.robot import Robot, RobotFileError, load_robot
from unitree_lowlevel.codec import GENERATIONS
from unitree_lowlevel.doctor.host_checks import check_computer, check_network, check_sdk
from unitree_lowlevel.doctor.recording import Recording, record, watch_joints
from unitree_lowlevel.doctor.result import Finding, Level, failed
from unitree_lowlevel.doctor.robot_checks import (
    check_answers,
    check_generations,
    check_loss,
    check_rate,
    check_rejected,
    check_robot_state,
    check_round_trip,
    check_sources,
)
from unitree_lowlevel.transport import TRANSPORTS, Transport, TransportError, make_transport

_ADVICE = (
    "Run it with the robot lying on the ground or hung up: its motors are off meanwhile, a standing robot would fall."
)


def main(robot: str) -> int:
    """Examine the robot called `robot`; returns the exit code, 1 when it must not be started."""
    options = _parser(robot).parse_args(_arguments())
    try:
        facts = load_robot(robot)
    except RobotFileError as error:
        print(failed("robot file", str(error)))
        return 1
    levels = [_told(finding) for finding in _examine(facts, options)]
    return _verdict(levels)


def _arguments() -> list[str]:
    """What the user gave; `ros2 run` and launch files add --ros-args and what belongs to it."""
    given = sys.argv[1:]
    return given[: given.index("--ros-args")] if "--ros-args" in given else given


def _parser(robot: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="doctor", description=f"Checks the way to the {robot}, and the {robot}. {_ADVICE}"
    )
    parser.add_argument("--target", default="192.168.123.10", help="the robot's address (%(default)s)")
    parser.add_argument("--port", type=int, default=8007, help="its UDP port (%(default)s)")
    parser.add_argument("--local-port", type=int, default=8080, help="this computer's UDP port (%(default)s)")
    parser.add_argument(
        "--generation", choices=tuple(GENERATIONS), default="gen33", help="of the wire format (%(default)s)"
    )
    parser.add_argument("--transport", choices=tuple(TRANSPORTS), default="wire", help="who speaks it (%(default)s)")
    parser.add_argument("--seconds", type=_seconds, default=3.0, help="how long to listen (%(default)s)")
    parser.add_argument(
        "--by-hand", type=_seconds, metavar="SECONDS", help="then name the joints that you move by hand"
    )
    return parser


def _seconds(text: str) -> float:
    if not 0.0 < (seconds := float(text)) <= 3600.0:
        raise argparse.ArgumentTypeError(f"{text} is no time from 0 to 3600 seconds")
    return seconds


def _examine(robot: Robot, options: argparse.Namespace) -> Iterable[Finding]:
    """The findings, each as soon as it is made; what depends on something that failed is left out."""
    target = (options.target, options.port)
    way = [*check_network(target, options.local_port), check_sdk(options.transport, GENERATIONS[options.generation])]
    yield from way
    if any(finding.level is Level.FAILED for finding in way):
        yield from check_computer(None)
        return
    transport = make_transport(options.transport, GENERATIONS[options.generation], target, options.local_port)
    try:
        transport.open()
        yield from _examine_through(transport, robot, options)
    except TransportError as error:
        yield failed("transport", str(error))
    finally:
        transport.close()


def _examine_through(transport: Transport, robot: Robot, options: argparse.Namespace) -> Iterable[Finding]:
    recording = record(transport, options.seconds)
    yield from check_packets(recording, robot, options)
    if recording.states:
        yield from check_robot_state(recording, robot)
    yield from check_computer(recording)
    if recording.states and options.by_hand:
        watch_joints(transport, options.by_hand)


def check_packets(recording: Recording, robot: Robot, options: argparse.Namespace) -> Iterable[Finding]:
    """All checks of the packets; rates say nothing where no states come."""
    generation = GENERATIONS[options.generation]
    yield check_answers(recording, (options.target, options.port), generation)
    yield check_rejected(recording)
    yield check_sources(recording)
    if recording.states:
        yield check_generations(recording, generation)
        yield check_rate(recording)
        yield check_loss(recording, robot)
        yield check_round_trip(recording)


def _told(finding: Finding) -> Level:
    print(finding, flush=True)
    return finding.level


def _verdict(levels: list[Level]) -> int:
    failures, warnings = levels.count(Level.FAILED), levels.count(Level.WARNING)
    if failures:
        print(f"\n{failures} of {len(levels)} checks failed: do not start this robot before they pass.")
        return 1
    print(f"\n{len(levels)} checks passed" + (f", {warnings} of them with a warning." if warnings else "."))
    return 0
