"""The doctor: checks the route to a robot and the robot, and prints one line for each check.

The robot does not move: the doctor sends only commands with the motors off.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack

from fcnet_core.errors import FcnetError, RobotInUseError, TransportError
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import GENERATIONS
from unitree_lowlevel.doctor.host_checks import Level, Outcome, check_clock, check_network, check_wake_up, failed
from unitree_lowlevel.doctor.robot_checks import check_robot, record, watch_joints
from unitree_lowlevel.io_process import lock_robot
from unitree_lowlevel.network import resolve
from unitree_lowlevel.safety.checks import require_drivable
from unitree_lowlevel.transport import LOCAL_PORT, TRANSPORTS, make_transport

_ADVICE = "Run it with the robot lying on the ground or hung up: motors are switched off, so a standing robot falls."


def main(robot: str) -> int:
    """Check the robot called `robot`; return the exit code, 1 if it must not be started."""
    given = sys.argv[1:]
    if "--ros-args" in given:  # which, with all after it, `ros2 run` and launch files add
        given = given[: given.index("--ros-args")]
    options = _parser(robot).parse_args(given)
    levels = []
    for check, (level, message) in _examine(robot, options):
        print(f"{level.value:<8} {check:<18} {message}", flush=True)
        levels.append(level)
    failures, warnings = levels.count(Level.FAILED), levels.count(Level.WARNING)
    if failures:
        print(f"\n{failures} of {len(levels)} checks failed: do not start this robot until they pass.")
        return 1
    print(f"\n{len(levels)} checks passed" + (f", {warnings} of them with a warning." if warnings else "."))
    return 0


def _parser(robot: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="doctor", description=f"Check the route to the {robot}, and the {robot}. {_ADVICE}"
    )
    parser.add_argument("--target", default="192.168.123.10", help="the robot's address (%(default)s)")
    parser.add_argument("--port", type=int, default=8007, help="the robot's UDP port (%(default)s)")
    parser.add_argument("--local-port", type=int, default=LOCAL_PORT, help="this computer's UDP port (%(default)s)")
    parser.add_argument("--generation", choices=tuple(GENERATIONS), default="gen33", help="wire format (%(default)s)")
    parser.add_argument("--transport", choices=TRANSPORTS, default="wire", help="sdk: vendor's library (%(default)s)")
    parser.add_argument("--seconds", type=_seconds, default=3.0, help="duration of the measurement [s] (%(default)s)")
    parser.add_argument("--by-hand", type=_seconds, metavar="SECONDS", help="at the end, name the joints you move")
    return parser


def _seconds(text: str) -> float:
    if not 0.0 < (seconds := float(text)) <= 3600.0:
        raise argparse.ArgumentTypeError(f"{text} is not a time up to 3600 s")
    return seconds


def _examine(name: str, options: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    """Yield name and outcome of every check as soon as it is done. Checks that depend on a failed one are omitted."""
    try:
        robot = load_robot(name)
        require_drivable(robot)
    except FcnetError as error:
        yield "robot file", failed(str(error))
        return
    target, generation = (options.target, options.port), GENERATIONS[options.generation]
    before = check_network(target, options.local_port) | {"clock": check_clock()}
    yield from before.items()
    if any(outcome.level is Level.FAILED for outcome in before.values()):
        return
    transport = make_transport(options.transport, generation, target, options.local_port)
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_robot((resolve(options.target), options.port), takes_over=False))
            stack.callback(transport.close)
            transport.open()
            recording = record(transport, options.seconds)
            yield from check_robot(recording, robot, target, generation)
            yield "wake-up", check_wake_up(recording.lateness)
            if recording.states and options.by_hand:
                watch_joints(transport, options.by_hand)
        except (RobotInUseError, TransportError) as error:
            yield "robot" if isinstance(error, RobotInUseError) else "transport", failed(str(error))
