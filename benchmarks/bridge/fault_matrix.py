"""The fault matrix: every fault of the line, the board, the body and of ROS in every mode of the robot.

Real bridge and controller processes, a fake board with the MuJoCo robot behind it, UDP and DDS between them. For every
cell: what was done about it and after how long, the largest command that left the bridge, and whether reset recovered.

Run it in a shell after `. env.sh`, on an otherwise idle machine; it took 26 minutes for both robots at once:
    python benchmarks/bridge/fault_matrix.py --robot aliengo --markdown docs/fault_matrix.md
Exit code 1: a command left the bridge that never may, or a fault was missed or taken for one that it is not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import table
from fault_cases import CASES, CONTROLLER_FAULT, DAMPED, MODES, SOFT_MODES, TOLERATED, FaultCase
from fault_rig import Events, FaultRig, LocalBoard

from fcnet_core.robot import Robot, load_robot
from unitree_lowlevel.codec import PERIOD, POSITION_STOP, LowCommand

sys.path.append(str(Path(__file__).resolve().parents[2] / "src/fcnet_ros/test/shared"))
from ros_harness import own_domain

FLOAT_TOLERANCE = 1e-5  # [rad], single precision on the wire
SLACK = 0.15  # [s] that this computer may add to a deadline when both its cores are taken
TOLERATED_TIME = 1.4  # [s] for which a fault that needs no reaction is observed
WARNING_TIME = 2.5  # [s] until a warning: packets are counted for a second, /diagnostics comes once a second
REFUSAL_TIME = 0.6  # [s] for which a robot is observed that is requested to stand up in spite of a fault
AFTER_DAMPING = 0.3  # [s] observed after the joints were damped
SWITCH_INTERVAL = 0.0005  # [s] that other threads may keep the board from the interpreter
TOPIC_DELAY = 0.1  # [s] from a fault of the controller until its mode arrives here, at most
LONGEST_SILENCE = 0.1  # [s] on the wire
DISTURBED = 0.05  # [s] between two commands
ATTEMPTS = 3
Rig = FaultRig[LocalBoard]
NOT_TRIED = "not tried"
MOST_NOT_TRIED = 3  # cells in a row: the programs do not start any more
PAGE = Path(__file__).with_name("fault_page.md")
GROUPS = {  # columns of the page: modes with a like outcome
    "standing up to lying down": ("standing_up", "standing", "walking", "lying_down"),
    "recovering": ("recovering",),
    "passive, fault": SOFT_MODES,
}


@dataclass(frozen=True)
class Cell:
    """What one fault did in one mode.

    outcome: see fault_cases; detected [s] after its beginning; stiffness: the largest before and after the joints were
    damped [Nm/rad]; beyond: how far positions were outside the limits [rad]; slew [rad/s]; recovered [s]: until the
    robot was passive again, by resets alone; problems: what must not be; violated: a command that must never be is
    among them; disturbed: this program or the bridge was held up, so that the times cannot be trusted.
    """

    fault: str
    mode: str
    outcome: str
    detected: float | None = None
    stiffness: float = 0.0
    stiffness_after: float = 0.0
    beyond: float = 0.0
    slew: float = 0.0
    recovered: float | None = None
    violated: bool = False
    disturbed: bool = False
    attempts: int = 1
    problems: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The cell in one line."""
        time_taken = f" {1e3 * self.detected:.0f} ms" if self.detected is not None else ""
        text = f"{self.outcome.replace('trip ', '')}{time_taken}"
        return f"**{text}: {'; '.join(self.problems)}**" if self.problems else text

    @property
    def goes_on(self) -> bool:
        """Whether the joints went on following targets."""
        return self.outcome == TOLERATED or self.outcome.startswith("warning")


def run_cell(rig: Rig, case: FaultCase, mode: str) -> Cell:
    """A cell, again where something other than the fault, as a busy computer, may have made it what it is."""
    for attempt in range(ATTEMPTS):
        try:
            rig.prepare(mode)
            cell = _measured(rig, case, mode)
        except (TimeoutError, AssertionError) as error:  # of a program that does not start, respond or recover
            cell = Cell(case.name, mode, NOT_TRIED, problems=(str(error),))
        cell = replace(cell, attempts=attempt + 1)
        if not cell.problems or (cell.violated and not cell.disturbed):
            break
        print(f"{case.name:<30} {mode:<12} {cell.short}; attempt {attempt + 1}", file=sys.stderr, flush=True)
    return cell


def _measured(rig: Rig, case: FaultCase, mode: str) -> Cell:
    """Let the fault begin, observe, end the fault, recover."""
    rig.events = Events()
    rig.board.commands.reset()
    time.sleep(0.02)
    began = time.monotonic()
    rig.board.faults = case.faults
    case.begin(rig)
    cell = _observe(rig, case, mode, began)
    if mode == "passive" and case.must_damp("standing") and cell.outcome.startswith("warning"):
        rig.client.call("controller/stand_up")
        time.sleep(REFUSAL_TIME)
    case.end(rig)
    problems = _after(rig, case, mode)
    rig.bring_up()
    try:
        recovered = rig.recover()
    except (TimeoutError, AssertionError):  # resets were refused for a minute
        recovered = None
    log, robot = rig.board.commands, rig.robot
    damped_at = np.inf if cell.detected is None or cell.goes_on else began + cell.detected
    later = [command for arrival, command in log.recent if arrival > damped_at]
    beyond = np.fmax(robot.lower - log.lowest_position, log.highest_position - robot.upper)
    cell = replace(
        cell,
        stiffness=log.largest_stiffness,
        stiffness_after=max((_stiffness(command) for command in later), default=0.0),
        beyond=max(float(beyond.max()), 0.0),
        slew=log.largest_step / PERIOD,
        recovered=recovered,
        disturbed=bool(log.intervals.max(initial=0.0) > DISTURBED),
    )
    violations = _violations(rig, case, cell)
    return replace(cell, violated=bool(violations), problems=(*violations, *problems, *_differences(case, cell)))


def _after(rig: Rig, case: FaultCase, mode: str) -> list[str]:
    """What is wrong with programs, silence and controller once the fault has ended."""
    ended = [name for name in ("bridge", "controller") if not rig.alive(name) and name != case.ends]
    found = [f"{name.upper()} ENDED" for name in ended]
    arrivals = rig.board.commands.arrivals
    until = time.monotonic() if rig.alive("bridge") else arrivals[-1]
    gap = float(np.diff(np.append(arrivals, until)).max())
    if gap > LONGEST_SILENCE + SLACK:
        found.append(f"SILENT for {1e3 * gap:.0f} ms")
    if case.controller_fault and mode not in SOFT_MODES and rig.client.mode not in ("fault", "passive"):
        found.append(f"CONTROLLER in {rig.client.mode}, not in fault")
    return found


def _observe(rig: Rig, case: FaultCase, mode: str, began: float) -> Cell:
    """The outcome of the fault, and after how long it was seen."""
    expected, events = case.expected(mode), rig.events
    observation = TOLERATED_TIME if TOLERATED in expected else WARNING_TIME
    end = began + (case.deadline + 1.5 if case.must_damp(mode) else observation)
    wanted = {outcome.removeprefix("warning ") for outcome in expected if outcome.startswith("warning ")}
    while time.monotonic() < end:
        time.sleep(0.01)
        if events.trip is not None or (DAMPED in expected and _damped_at(rig, mode, began) is not None):
            time.sleep(AFTER_DAMPING)
            break
        if wanted & set(events.warnings):
            break
    damped_at, trip, warnings = _damped_at(rig, mode, began), events.trip, events.warnings
    if trip is not None:
        return Cell(case.name, mode, f"trip {trip[1]}", (trip[0] if damped_at is None else damped_at) - began)
    if damped_at is not None:
        seen = events.controller_fault
        by_controller = seen is not None and seen < damped_at + TOPIC_DELAY
        return Cell(case.name, mode, CONTROLLER_FAULT if by_controller else DAMPED, damped_at - began)
    for name in sorted(set(warnings) & wanted) or sorted(warnings):
        return Cell(case.name, mode, f"warning {name}", warnings[name] - began)
    return Cell(case.name, mode, TOLERATED)


def _damped_at(rig: Rig, mode: str, began: float) -> float | None:
    """When stiffness ended: for good before a trip was reported, or at all where there was none.

    That a robot which has lain down is damped is no reaction to a fault, nor that one is which was never stiff.
    """
    log, trip = rig.board.commands, rig.events.trip
    if mode in SOFT_MODES or (mode == "lying_down" and rig.client.mode == "passive"):
        return None
    if trip is None:
        return log.first_soft_after(began)
    stiff = [arrival for arrival, command in log.recent if began <= arrival <= trip[0] and _stiffness(command) > 0.0]
    return log.first_soft_after(stiff[-1] if stiff else began)


def _stiffness(command: LowCommand) -> float:
    """The largest stiffness [Nm/rad] with which any joint holds a position."""
    return float(np.where(np.abs(command.position) < POSITION_STOP, command.stiffness, 0.0).max())


def _violations(rig: Rig, case: FaultCase, cell: Cell) -> list[str]:
    """What no command may ever do."""
    log, safety = rig.board.commands, rig.robot.safety
    found = []
    if log.non_finite or log.bad:
        found.append(f"BAD COMMANDS {dict(log.bad)}")
    if cell.beyond > FLOAT_TOLERANCE:
        found.append(f"OUTSIDE LIMITS by {cell.beyond:.4f} rad")
    if cell.stiffness > rig.allowed_stiffness or log.largest_damping > safety.max_kd:
        found.append(f"TOO STIFF: {cell.stiffness:.1f}, {log.largest_damping:.1f}")
    if log.largest_torque > 0.0:
        found.append(f"TORQUE {log.largest_torque:.2f} Nm")
    if log.largest_step > safety.max_target_rate * PERIOD + FLOAT_TOLERANCE:
        found.append(f"SLEW of {log.largest_step:.3f} rad a cycle")
    latched = cell.outcome.startswith("trip") or case.must_damp(cell.mode)
    if latched and cell.stiffness_after > 0.0:
        found.append(f"STIFF AGAIN, {cell.stiffness_after:.1f} Nm/rad")
    undamped = [command for _arrival, command in log.recent if _stiffness(command) > 0.0 and not command.damping.all()]
    if undamped:
        found.append(f"STIFF WITHOUT DAMPING, {len(undamped)} commands")
    if cell.mode in SOFT_MODES and cell.stiffness > 0.0:
        found.append(f"STIFF in {cell.mode}")
    if cell.recovered is None:
        found.append("NOT RECOVERED by reset")
    return found


def _differences(case: FaultCase, cell: Cell) -> list[str]:
    """Where what happened is not what the design says; a warning more than needed is allowed."""
    expected = case.expected(cell.mode)
    if cell.outcome not in expected:
        if TOLERATED in expected and cell.goes_on:
            return []
        return [f"{'FALSE ALARM' if TOLERATED in expected else 'MISSED'}, expected {' or '.join(expected)}"]
    if case.must_damp(cell.mode) and cell.detected is not None and cell.detected > case.deadline + SLACK:
        return [f"LATE, expected {1e3 * case.deadline:.0f} ms"]
    return []


def report(robots: dict[str, list[Cell]]) -> str:
    """Return the page docs/fault_matrix.md."""
    counts = (
        f"{name}: {len(cells)} cells, {sum(bool(cell.problems) for cell in cells)} not as designed, "
        f"{sum(cell.attempts > 1 for cell in cells)} tried again."
        for name, cells in robots.items()
    )
    cells = [cell for cells in robots.values() for cell in cells]
    columns = ["fault", *GROUPS, *(f"{name} [ms]" for name in robots)]
    rows = ([fault, *_row(fault, robots)] for fault in dict.fromkeys(cell.fault for cell in cells))
    wrong = [f"\n- {cell.fault}, {cell.mode}: {cell.short}" for cell in cells if cell.problems]
    return PAGE.read_text().format(counts="\n".join(counts), table=table(columns, rows), wrong="".join(wrong))


def _row(fault: str, robots: dict[str, list[Cell]]) -> Iterator[str]:
    """Outcomes of a fault by group of modes, of all robots together; then each robot's longest time to damping [ms]."""
    for modes in GROUPS.values():
        found = [cell for cells in robots.values() for cell in cells if cell.fault == fault and cell.mode in modes]
        yield ", ".join(sorted({cell.outcome.replace("trip ", "") for cell in found}))
    for cells in robots.values():
        times = [
            cell.detected
            for cell in cells
            if cell.fault == fault and cell.mode not in SOFT_MODES and not cell.goes_on and cell.detected is not None
        ]
        yield f"{1e3 * max(times):.0f}" if times else ""


def main() -> int:
    """Run the matrix; print it, write it, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo,a1", help="robots, separated by commas (%(default)s)")
    parser.add_argument(
        "--faults", default="", help="only faults whose name contains one of these, separated by commas"
    )
    parser.add_argument("--modes", default=",".join(MODES), help="only these modes, separated by commas")
    parser.add_argument("--markdown", type=Path, help="file to write")
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    robots: dict[str, list[Cell]] = {}
    for name in options.robot.split(","):
        robots[name] = run_robot(load_robot(name), options, robots)
    print(report(robots))
    return int(any(cell.problems for cells in robots.values() for cell in cells))


def run_robot(robot: Robot, options: argparse.Namespace, done: dict[str, list[Cell]]) -> list[Cell]:
    """All chosen cells of one robot; the page grows with each of them, after the robots that are done."""
    parts = options.faults.lower().split(",")
    cases = [case for case in CASES if any(part in case.name.lower() for part in parts)]
    chosen = [(case, mode) for case in cases for mode in MODES if mode in options.modes.split(",")]
    path = Path(tempfile.gettempdir()) / f"fault_matrix_{robot.name}.log"
    print(f"{robot.name}: {len(chosen)} cells; the output of bridge and controller is in {path}", file=sys.stderr)
    cells: list[Cell] = []
    with path.open("w") as log, own_domain() as domain, FaultRig(robot, LocalBoard(robot), domain, log) as rig:
        for case, mode in chosen:
            cells.append(run_cell(rig, case, mode))
            if options.markdown:
                options.markdown.write_text(report({**done, robot.name: cells}))
            print(f"{case.name:<30} {mode:<12} {cells[-1].short}", file=sys.stderr, flush=True)
            if [cell.outcome for cell in cells[-MOST_NOT_TRIED:]] == [NOT_TRIED] * MOST_NOT_TRIED:
                break
    return cells


if __name__ == "__main__":
    sys.exit(main())
