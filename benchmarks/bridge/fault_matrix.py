"""The fault matrix: every fault of the line, the board, the body and of ROS in every mode of the robot.

Real bridge and controller processes, a motor board with the MuJoCo robot behind it in a third one, UDP and DDS between
them. For every cell: the reaction and its time, the commands on the wire, and whether reset recovers the robot.

Run it in a shell after `. env.sh`, on an otherwise idle machine; it took 26 minutes for both robots at once:
    python benchmarks/bridge/fault_matrix.py --robot aliengo --markdown docs/fault_matrix.md
    python benchmarks/bridge/fault_matrix.py --field --modes walking
Exit code 1: a forbidden command left the bridge, or a fault was missed or taken for another one.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fault_cases import CASES, CONTROLLER_FAULT, DAMPED, MODES, SOFT_MODES, TOLERATED, FaultCase
from fault_rig import Events, FaultRig
from field_cases import FIELD, changeable_files
from wire_oracle import WireOracle

from fcnet_core.robot import load_robot
from fcnet_core.verbs import markdown

SLACK = 0.15  # [s] that this computer may add to a deadline when both its cores are taken
TOLERATED_TIME = 1.4  # [s] for which a fault that needs no reaction is observed
WARNING_TIME = 2.5  # [s] until a warning: packets are counted for a second, /diagnostics comes once a second
REFUSAL_TIME = 0.6  # [s] for which a robot is observed that is requested to stand up in spite of a fault
AFTER_DAMPING = 0.3  # [s] observed after the joints were damped
TOPIC_DELAY = 0.1  # [s] from a fault of the controller until its mode arrives here, at most
LONGEST_SILENCE = 0.1  # [s] on the wire
LOOK = 0.01  # [s] between two looks at the wire
DISTURBED = 0.05  # [s] between two commands
ATTEMPTS = 3
PAGE = Path(__file__).with_name("fault_page.md")
GROUPS = {  # columns of the page: modes with a like outcome
    "standing up to lying down": ("standing_up", "standing", "walking", "lying_down"),
    "recovering": ("recovering",),
    "passive, fault": SOFT_MODES,
}


@dataclass(frozen=True)
class Cell:
    """The effect of one fault in one mode.

    outcome: see fault_cases; detected [s] after its beginning; violated: a forbidden command is among the problems;
    disturbed: commands were further apart than DISTURBED, so that the times cannot be trusted.
    """

    fault: str
    mode: str
    outcome: str
    detected: float | None = None
    violated: bool = False
    disturbed: bool = False
    attempts: int = 1
    problems: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """Outcome, time and problems in one line."""
        time_taken = f" {1e3 * self.detected:.0f} ms" if self.detected is not None else ""
        text = f"{self.outcome.replace('trip ', '')}{time_taken}"
        return f"**{text}: {'; '.join(self.problems)}**" if self.problems else text

    @property
    def goes_on(self) -> bool:
        """Whether the joints kept following targets."""
        return self.outcome == TOLERATED or self.outcome.startswith("warning")


class Wire:
    """The commands on the wire since this object was made: `arrival` (n,) [s], `stiffness` (n,) [Nm/rad], and the rules
    that they broke.
    """

    def __init__(self, rig: FaultRig) -> None:
        self._board = rig.board
        self._board.take()
        self.oracle = WireOracle(rig.robot, slack=SLACK, true_states=False)
        self.arrival, self.stiffness = np.empty(0), np.empty(0)
        self.broken: set[str] = set()

    def look(self) -> None:
        """Take the commands that have arrived since the last look."""
        log = self._board.take()
        self.arrival = np.append(self.arrival, log.arrival)
        self.stiffness = np.append(self.stiffness, log.largest_stiffness)
        self.broken.update(self.oracle.check(log))

    def damped_at(self, rig: FaultRig, mode: str, began: float) -> float | None:
        """Return when stiffness ended: for good before a trip was reported, or at all without a trip.

        A robot that has lain down, or was never stiff, is damped without any reaction to a fault.
        """
        if mode in SOFT_MODES or (mode == "lying_down" and rig.client.mode == "passive"):
            return None
        if rig.events.trip is not None:
            before = (self.arrival >= began) & (self.arrival <= rig.events.trip[0]) & (self.stiffness > 0.0)
            began = float(self.arrival[before].max(initial=began))
        soft = self.arrival[(self.arrival > began) & (self.stiffness == 0.0)]
        return float(soft[0]) if len(soft) else None


def run_cell(rig: FaultRig, case: FaultCase, mode: str) -> Cell:
    """Measure a cell, again if something other than the fault, such as a busy computer, may have spoilt it."""
    for attempt in range(ATTEMPTS):
        try:
            rig.prepare(mode)
            cell = _measured(rig, case, mode)
        except (TimeoutError, AssertionError) as error:  # of a program that does not start, respond or recover
            cell = Cell(case.name, mode, "not tried", problems=(str(error),))
        cell = replace(cell, attempts=attempt + 1)
        if not cell.problems or (cell.violated and not cell.disturbed):
            break
        print(f"{case.name:<30} {mode:<12} {cell.short}; attempt {attempt + 1}", file=sys.stderr, flush=True)
    return cell


def _measured(rig: FaultRig, case: FaultCase, mode: str) -> Cell:
    rig.events = Events()
    wire = Wire(rig)
    time.sleep(0.02)
    began = time.monotonic()
    rig.board.set_faults(case.faults)
    case.begin(rig)
    cell = _observe(rig, wire, case, mode, began)
    if mode == "passive" and case.must_damp("standing") and cell.outcome.startswith("warning"):
        rig.client.call("controller/stand_up")
        time.sleep(REFUSAL_TIME)
    case.end(rig)
    wire.look()
    problems = _after(rig, wire, case, mode)
    rig.bring_up()
    try:
        rig.recover()
        recovered = True
    except (TimeoutError, AssertionError):  # resets were rejected for a minute
        recovered = False
    wire.look()
    damped_at = np.inf if cell.detected is None or cell.goes_on else began + cell.detected
    stiffness_after = float(wire.stiffness[wire.arrival > damped_at].max(initial=0.0))
    violations = sorted(wire.broken)
    if (stiffness := wire.stiffness.max(initial=0.0)) > rig.allowed_stiffness:
        violations.append(f"STIFFER than the policy's gains, {stiffness:.1f} Nm/rad")
    if (cell.outcome.startswith("trip") or case.must_damp(mode)) and stiffness_after > 0.0:
        violations.append(f"STIFF AGAIN, {stiffness_after:.1f} Nm/rad")
    if mode in SOFT_MODES and stiffness > 0.0:
        violations.append(f"STIFF in {mode}")
    if not recovered:
        violations.append("NOT RECOVERED by reset")
    return replace(
        cell,
        violated=bool(violations),
        disturbed=wire.oracle.longest_gap > DISTURBED,
        problems=(*violations, *problems, *_differences(case, cell)),
    )


def _after(rig: FaultRig, wire: Wire, case: FaultCase, mode: str) -> list[str]:
    """Return the problems with programs, silence and controller at the end of the fault."""
    ended = [name for name in ("bridge", "controller") if not rig.alive(name) and name != case.ends]
    found = [f"{name.upper()} ENDED" for name in ended]
    until = time.monotonic() if rig.alive("bridge") else wire.arrival[-1]
    gap = float(np.diff(np.append(wire.arrival, until)).max())
    if gap > LONGEST_SILENCE + SLACK:
        found.append(f"SILENT for {1e3 * gap:.0f} ms")
    if case.controller_fault and mode not in SOFT_MODES and rig.client.mode not in ("fault", "passive"):
        found.append(f"CONTROLLER in {rig.client.mode}, not in fault")
    return found


def _observe(rig: FaultRig, wire: Wire, case: FaultCase, mode: str, began: float) -> Cell:
    """Return the outcome of the fault and the time after which it was seen."""
    expected, events = case.expected(mode), rig.events
    observation = TOLERATED_TIME if TOLERATED in expected else WARNING_TIME
    end = began + (case.deadline + 1.5 if case.must_damp(mode) else observation)
    awaited = {outcome.removeprefix("warning ") for outcome in expected if outcome.startswith("warning ")}
    while time.monotonic() < end:
        time.sleep(LOOK)
        wire.look()
        if events.trip is not None or (DAMPED in expected and wire.damped_at(rig, mode, began) is not None):
            time.sleep(AFTER_DAMPING)
            wire.look()
            break
        if awaited & set(events.warnings):
            break
    damped_at, trip, warnings = wire.damped_at(rig, mode, began), events.trip, events.warnings
    if trip is not None:
        return Cell(case.name, mode, f"trip {trip[1]}", (trip[0] if damped_at is None else damped_at) - began)
    if damped_at is not None:
        seen = events.controller_fault
        by_controller = seen is not None and seen < damped_at + TOPIC_DELAY
        return Cell(case.name, mode, CONTROLLER_FAULT if by_controller else DAMPED, damped_at - began)
    for name in sorted(set(warnings) & awaited) or sorted(warnings):
        return Cell(case.name, mode, f"warning {name}", warnings[name] - began)
    return Cell(case.name, mode, TOLERATED)


def _differences(case: FaultCase, cell: Cell) -> list[str]:
    """Return how the outcome differs from the design; a warning more than needed is allowed."""
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
    return PAGE.read_text().format(counts="\n".join(counts), table=markdown(columns, rows), wrong="".join(wrong))


def _row(fault: str, robots: dict[str, list[Cell]]) -> Iterator[str]:
    """Yield the outcomes of a fault by group of modes, all robots together; then each robot's maximum time to damping
    [ms].
    """
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
    parser.add_argument("--field", action="store_true", help="faults of field_cases.py, instead of those of the page")
    parser.add_argument("--modes", default=",".join(MODES), help="only these modes, separated by commas")
    parser.add_argument("--markdown", type=Path, help="file to write")
    options = parser.parse_args()
    parts = options.faults.lower().split(",")
    cases = [case for case in (FIELD if options.field else CASES) if any(part in case.name.lower() for part in parts)]
    chosen = [(case, mode) for case in cases for mode in MODES if mode in options.modes.split(",")]
    robots: dict[str, list[Cell]] = {name: [] for name in options.robot.split(",")}
    for name, cells in robots.items():
        path = Path(tempfile.gettempdir()) / f"fault_matrix_{name}.log"
        print(f"{name}: {len(chosen)} cells; the output of bridge and controller is in {path}", file=sys.stderr)
        with ExitStack() as stack:
            log = stack.enter_context(path.open("w"))
            parameters, files = stack.enter_context(changeable_files(name))
            rig = stack.enter_context(FaultRig(load_robot(name), log, params_file=str(parameters), files=files))
            for case, mode in chosen:
                cells.append(run_cell(rig, case, mode))
                print(f"{case.name:<30} {mode:<12} {cells[-1].short}", file=sys.stderr, flush=True)
                if options.markdown:
                    options.markdown.write_text(report(robots))
    print(report(robots))
    return int(any(cell.problems for cells in robots.values() for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
