"""The fault matrix: every fault of the line, the board, the body and of ROS in every mode of the robot.

Real bridge and controller processes, a fake board with the MuJoCo robot behind it, UDP and DDS between them. For every
cell: what was done about it and after how long, the largest command that left the bridge, and whether reset recovered.

Run it in a shell after `. env.sh`, on an otherwise idle machine; it takes about 20 minutes a robot:
    python benchmarks/fault_matrix.py --robot aliengo --markdown docs/fault_matrix.md
Exit code 1: a command left the bridge that never may, or a fault was missed or taken for one that it is not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fault_cases import BY_CONTROLLER, CASES, DAMPED, LET_GO, MODES, TOLERATED, FaultCase
from fault_rig import FaultRig

from fcnet_core.model_file import load_model
from fcnet_core.robot import Robot, load_robot
from unitree_lowlevel.fake_board.board import PERIOD
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.messages import POSITION_STOP, LowCommand

TOLERANCE_OF_FLOATS = 1e-5  # [rad], single precision on the wire
SLACK = 0.15  # [s] that this computer may add to a deadline when both its cores are taken
OBSERVATION = 1.4  # [s] of a fault that needs no reaction
TELLING = 2.5  # [s] until a warning is told: packets are counted for a second, /diagnostics comes once a second
REFUSAL = 0.6  # [s] for which a robot that is told to stand up in spite of a fault is watched
AFTERWARDS = 0.3  # [s] watched after the joints were let go
SWITCH_INTERVAL = 0.0005  # [s] that other threads may keep the board from the interpreter
HEARING = 0.1  # [s] from a fault of the controller until it is heard here, at most
HELD_UP = 0.05  # [s] between two commands
ATTEMPTS = 3
NOT_TRIED = "not tried"
HOPELESS = 3  # cells in a row that could not be tried: programs do not start any more
FOLDER = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Cell:
    """What one fault did in one mode.

    outcome: see fault_cases; detected [s] after its beginning; stiffness: the largest before and after the joints were
    let go [Nm/rad]; beyond: how far positions were outside the limits [rad]; slew [rad/s]; recovered [s]: until the
    robot was passive again, by resets alone; problems: what must not be; violated: a command that must never be is
    among them; disturbed: this program or the bridge was held up, so that the times cannot be trusted.
    """

    fault: str
    mode: str
    outcome: str
    detected: float | None
    stiffness: float
    stiffness_after: float
    beyond: float
    slew: float
    recovered: float | None
    violated: bool = False
    disturbed: bool = False
    attempts: int = 1
    problems: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The cell in the overview."""
        time_taken = f" {1e3 * self.detected:.0f} ms" if self.detected is not None else ""
        text = f"{self.outcome.replace('trip ', '')}{time_taken}"
        return f"**{text}: {'; '.join(self.problems)}**" if self.problems else text


def run_cell(rig: FaultRig, case: FaultCase, mode: str) -> Cell:
    """A cell, again where something else than the fault, as a busy computer, may have made it what it is."""
    for attempt in range(ATTEMPTS):
        cell = replace(_attempt(rig, case, mode), attempts=attempt + 1)
        if not cell.problems or (cell.violated and not cell.disturbed) or attempt == ATTEMPTS - 1:
            break
        print(f"{case.name:<30} {mode:<12} {cell.short}; once more", file=sys.stderr, flush=True)
    return cell


def _attempt(rig: FaultRig, case: FaultCase, mode: str) -> Cell:
    """Bring the robot into the mode, let the fault happen, watch, end the fault, recover."""
    try:
        rig.prepare(mode)
        return _happening(rig, case, mode)
    except TimeoutError as error:  # of a program that does not start, answer or recover
        rig.set_faults(BoardFaults())
        return Cell(case.name, mode, NOT_TRIED, None, 0.0, 0.0, 0.0, 0.0, None, problems=(str(error),))


def _happening(rig: FaultRig, case: FaultCase, mode: str) -> Cell:
    rig.news.forget()
    rig.board.commands.reset()
    time.sleep(0.02)
    began = time.monotonic()
    case.begin(rig)
    outcome, detected = _watch(rig, case, mode, began)
    if mode == "passive" and case.lets_go("standing") and outcome.startswith("told"):
        rig.request("controller/stand_up")
        time.sleep(REFUSAL)
    case.end(rig)
    let_go = None if detected is None or _goes_on(outcome) else began + detected
    recovered = _recovered(rig)
    cell = _measured(rig, case, mode, outcome, detected, let_go, recovered)
    violations = tuple(_violations(rig, case, cell))
    return replace(cell, violated=bool(violations), problems=(*violations, *_judged(case, mode, cell)))


def _recovered(rig: FaultRig) -> float | None:
    """How long it took to leave trip and fault by resets [s], None where they were refused for a minute."""
    try:
        return rig.recover()
    except TimeoutError:
        return None


def _goes_on(outcome: str) -> bool:
    return outcome == TOLERATED or outcome.startswith("told")


def _watch(rig: FaultRig, case: FaultCase, mode: str, began: float) -> tuple[str, float | None]:
    """What became of the fault, and after how long."""
    expected = case.expected(mode)
    wait = case.deadline + 1.5 if case.lets_go(mode) else OBSERVATION if case.tolerated(mode) else TELLING
    wanted = {outcome.removeprefix("told ") for outcome in expected if outcome.startswith("told ")}
    while time.monotonic() < began + wait:
        time.sleep(0.01)
        unlatched = LET_GO in expected and _let_go_at(rig, mode, began) is not None
        if unlatched or rig.news.first_fault is not None:
            time.sleep(AFTERWARDS)
            break
        if wanted & set(rig.news.told):
            break
    return _outcome(rig, mode, began, wanted)


def _outcome(rig: FaultRig, mode: str, began: float, wanted: set[str]) -> tuple[str, float | None]:
    let_go, trip, told = _let_go_at(rig, mode, began), rig.news.first_fault, rig.news.told
    if trip is not None:
        return f"trip {trip[1]}", (trip[0] if let_go is None else let_go) - began
    if let_go is not None:
        seen = rig.news.controller_fault
        return BY_CONTROLLER if seen is not None and seen < let_go + HEARING else LET_GO, let_go - began
    for name in sorted(set(told) & wanted) or sorted(told):
        return f"told {name}", told[name] - began
    return TOLERATED, None


def _let_go_at(rig: FaultRig, mode: str, began: float) -> float | None:
    """When stiffness ended: for good before a trip was heard of, or at all where there was none.

    That a robot which has lain down is damped is no reaction to a fault, nor that one is which was never stiff.
    """
    log, trip = rig.board.commands, rig.news.first_fault
    if mode in DAMPED or (mode == "lying_down" and rig.news.mode == "passive"):
        return None
    if trip is None:
        return log.first_soft_after(began)
    stiff = [moment for moment, command in log.recent if began <= moment <= trip[0] and _stiffness(command) > 0.0]
    return log.first_soft_after(stiff[-1] if stiff else began)


def _measured(
    rig: FaultRig,
    case: FaultCase,
    mode: str,
    outcome: str,
    detected: float | None,
    let_go: float | None,
    recovered: float | None,
) -> Cell:
    log, robot = rig.board.commands, rig.robot
    later = [command for moment, command in log.recent if let_go is not None and moment > let_go]
    after = max((_stiffness(command) for command in later), default=0.0)
    beyond = np.fmax(robot.lower - log.lowest_position, log.highest_position - robot.upper)
    return Cell(
        fault=case.name,
        mode=mode,
        outcome=outcome,
        detected=detected,
        stiffness=log.largest_stiffness,
        stiffness_after=after,
        beyond=max(float(beyond.max()), 0.0),
        slew=log.largest_step / PERIOD,
        recovered=recovered,
        disturbed=bool(log.intervals.max(initial=0.0) > HELD_UP),
    )


def _stiffness(command: LowCommand) -> float:
    """The largest stiffness [Nm/rad] with which any joint holds a position."""
    return float(np.where(np.abs(command.position) < POSITION_STOP, command.stiffness, 0.0).max())


def _violations(rig: FaultRig, case: FaultCase, cell: Cell) -> list[str]:
    """What no command may ever do."""
    log, safety = rig.board.commands, rig.robot.safety
    allowed = rig.allowed_stiffness
    found = []
    if log.non_finite or log.bad:
        found.append(f"BAD COMMANDS {dict(log.bad)}")
    if cell.beyond > TOLERANCE_OF_FLOATS:
        found.append(f"OUTSIDE LIMITS by {cell.beyond:.4f} rad")
    if cell.stiffness > allowed or log.largest_damping > safety.max_kd:
        found.append(f"TOO STIFF: {cell.stiffness:.1f}, {log.largest_damping:.1f}")
    if log.largest_torque > 0.0:
        found.append(f"TORQUE {log.largest_torque:.2f} Nm")
    if log.largest_step > safety.max_target_rate * PERIOD + TOLERANCE_OF_FLOATS:
        found.append(f"SLEW of {log.largest_step:.3f} rad a cycle")
    latched = cell.outcome.startswith("trip") or case.lets_go(cell.mode)
    if latched and cell.stiffness_after > 0.0:
        found.append(f"STIFF AGAIN, {cell.stiffness_after:.1f} Nm/rad")
    if cell.mode in DAMPED and cell.stiffness > 0.0:
        found.append(f"STIFF in {cell.mode}")
    if cell.recovered is None:
        found.append("NOT RECOVERED by reset")
    return found


def _judged(case: FaultCase, mode: str, cell: Cell) -> list[str]:
    """Whether what happened is what the design says."""
    expected = case.expected(mode)
    if cell.outcome not in expected:
        word = "FALSE ALARM" if TOLERATED in expected and not _goes_on(cell.outcome) else "MISSED"
        if TOLERATED in expected and cell.outcome.startswith("told"):
            return []  # a warning more than needed
        return [f"{word}, expected {' or '.join(expected)}"]
    if case.lets_go(mode) and cell.detected is not None and cell.detected > case.deadline + SLACK:
        return [f"LATE, expected {1e3 * case.deadline:.0f} ms"]
    return []


def allowed_stiffness(robot: Robot) -> float:
    """The largest stiffness that any joint may get: the policy's, bounded by the robot file."""
    gains = load_model(FOLDER / "models" / f"{robot.name}.safetensors").card.kp
    return min(float(np.max(gains)), robot.safety.max_kp)


def overview(cells: list[Cell]) -> str:
    """A table, one line a fault, one column a mode."""
    modes = [mode for mode in MODES if any(cell.mode == mode for cell in cells)]
    lines = [f"| fault | {' | '.join(modes)} |", "|---" * (1 + len(modes)) + "|"]
    for fault in dict.fromkeys(cell.fault for cell in cells):
        found = {cell.mode: cell.short for cell in cells if cell.fault == fault}
        lines.append(f"| {fault} | {' | '.join(found.get(mode, '') for mode in modes)} |")
    return "\n".join(lines)


def details(cells: list[Cell]) -> str:
    """A table, one line a cell."""
    lines = [
        "| fault | mode | action | after [ms] | stiffness before, after [Nm/rad] | outside limits [rad] | slew [rad/s] "
        "| recovered by reset |",
        "|---" * 8 + "|",
    ]
    for cell in cells:
        after = "" if cell.detected is None else f"{1e3 * cell.detected:.0f}"
        stiffness = f"{cell.stiffness:.1f}, {cell.stiffness_after:.1f}"
        extremes = f"{stiffness} | {cell.beyond:.4f} | {cell.slew:.1f}"
        action = f"{cell.fault} | {cell.mode} | {cell.outcome} | {after}"
        lines.append(f"| {action} | {extremes} | {_recovery(cell)} |")
    return "\n".join(lines)


def _recovery(cell: Cell) -> str:
    if cell.recovered is None:
        return "NO"
    return "not needed" if _goes_on(cell.outcome) else f"yes, {cell.recovered:.1f} s"


def report(robots: dict[str, list[Cell]]) -> str:
    """The page docs/fault_matrix.md."""
    text = [_HEAD]
    for name, cells in robots.items():
        wrong = sum(bool(cell.problems) for cell in cells)
        again = sum(cell.attempts > 1 for cell in cells)
        text.append(
            f"## {name}: {len(cells)} cells, {wrong} not as designed\n\n{again} of them were tried again, since "
            f"the computer was busy.\n\n{overview(cells)}"
        )
    text.append((FOLDER / "benchmarks" / "fault_notes.md").read_text().rstrip())
    for name, cells in robots.items():
        text.append(f"## Every cell: {name}\n\n{details(cells)}")
    return "\n\n".join(text) + "\n"


_HEAD = """# Fault matrix

Written by `make fault-matrix` (benchmarks/fault_matrix.py): real bridge and controller processes, a fake board with the
MuJoCo robot behind it, every fault in every mode. No robot was involved.

A name is a trip: damping, latched until reset, after that many ms from the fault's beginning to the first command
without stiffness on the wire (in passive and fault, where nothing is stiff: until `robot_fault` said so). `told` is a
warning in /diagnostics, which comes once a second, while the robot goes on; in passive and fault it also keeps the
robot from standing up. `damped` is damping without a latch, `controller's fault` one that the controller has latched; a
program that was ended is started again for the recovery. A killed bridge sends nothing, and this board then holds the
last command: damping comes with the next bridge, which is started at once. `tolerated`: nothing happens, and nothing
need. **Bold** is not as designed. A cell that is not as designed is tried up to three times, unless a command left the
bridge that never may while nothing held up the computer.

In no cell may a command leave the bridge that is outside the joint limits, not finite, stiffer than the policy's gains,
faster than the slew limit, or stiff again after a trip before a person has asked; the program ends with exit code 1 if
one does, and if a fault is missed."""


def main() -> int:
    """Run the matrix; print it, write it, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo,a1", help="robots, separated by commas (%(default)s)")
    parser.add_argument("--faults", default="", help="only faults whose name contains this")
    parser.add_argument("--modes", default=",".join(MODES), help="only these modes, separated by commas")
    parser.add_argument("--markdown", type=Path, help="file to write")
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(215 + os.getpid() % 17))  # beyond those that tests use
    sys.setswitchinterval(SWITCH_INTERVAL)
    robots: dict[str, list[Cell]] = {}
    for name in options.robot.split(","):
        robots[name] = run_robot(load_robot(name), options, robots)
    print(report(robots))
    return int(any(cell.problems for cells in robots.values() for cell in cells))


def run_robot(robot: Robot, options: argparse.Namespace, done: dict[str, list[Cell]]) -> list[Cell]:
    """All chosen cells of one robot; the page grows with each of them, after the robots that are done."""
    cases = [case for case in CASES if options.faults.lower() in case.name.lower()]
    chosen = [(case, mode) for case in cases for mode in case.modes if mode in options.modes.split(",")]
    logs = Path(tempfile.mkdtemp(prefix="fault_matrix_"))
    print(f"{robot.name}: {len(chosen)} cells; what bridge and controller say is in {logs}", file=sys.stderr)
    cells = []
    with FaultRig(robot, logs, allowed_stiffness(robot)) as rig:
        for case, mode in chosen:
            cells.append(run_cell(rig, case, mode))
            if options.markdown:
                options.markdown.write_text(report({**done, robot.name: cells}))
            print(f"{case.name:<30} {mode:<12} {cells[-1].short}", file=sys.stderr, flush=True)
            if [cell.outcome for cell in cells[-HOPELESS:]] == [NOT_TRIED] * HOPELESS:
                break
    return cells


if __name__ == "__main__":
    sys.exit(main())
