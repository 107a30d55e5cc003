"""Attacks a walking robot's bridge and controller from outside, seeded, and checks the commands at the motor board.

Real processes and DDS; the board is a process of its own. Run it in a shell after `. env.sh`:
    python benchmarks/bridge/attacker.py [--duration 600] [--seed 0] [--attacks gains]
Exit code 1: a program ended, an unsafe command was on the wire, the memory of a process grew without end, or the robot
could not be brought back to walking.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
import traceback
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import TextIO

import numpy as np
from attacks import ATTACKS, Access, Attack
from common import memory
from fault_rig import FaultRig
from wire_oracle import WireOracle

from fcnet_core.robot import Robot, load_robot

MOST_GROWTH = 20.0  # [MB]
SLACK, SLACK_OF_A_BUSY_COMPUTER = 0.1, 0.4  # [s] beyond a deadline
MEASURE_PERIOD = 0.25  # [s] between two looks at the wire
SETTLE = 0.3  # [s] after an attack until the robot is looked at
RECOVERY_TIME = 15.0  # [s] until a damped robot is passive by resets


@dataclass
class Outcome:
    """Result of an attack: outcome, seconds of recovery if any, and violations."""

    attack: str
    kind: str
    outcome: str = "walks on"
    recovery: float = 0.0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        took = f" after {self.recovery:.1f} s" if self.recovery else ""
        wrong = f"   VIOLATION: {'; '.join(self.violations)}" if self.violations else ""
        return f"{self.kind:<10} {self.attack:<58} {self.outcome}{took}{wrong}"


class Attacker:
    """Attacks one after the other and keeps their outcomes.

    strict: the computer is otherwise idle, so that deadlines count, and so does a robot that cannot walk again.
    """

    def __init__(self, robot: Robot, log: TextIO, seed: int, physics: str, strict: bool) -> None:
        self.outcomes: list[Outcome] = []
        self.growth: dict[str, float] = {}  # [MB] of a process, at most
        self.oracle = WireOracle(robot, slack=SLACK if strict else SLACK_OF_A_BUSY_COMPUTER)
        self._strict = strict
        self._memory: dict[int, float] = {}
        self._violations: list[str] = []
        self._rng = np.random.default_rng(seed)
        self._stiff = False  # the last command
        self._closing = threading.Event()
        self._measured = threading.Thread(target=self._measure, daemon=True)
        self.rig = FaultRig(robot, log, physics)

    def __enter__(self) -> "Attacker":
        with ExitStack() as stack:  # a robot that never walks leaves no program behind
            stack.enter_context(self.rig)
            self.access = Access(self.rig, self._rng)
            stack.enter_context(self.access.client)
            self.rig.prepare("walking")
            self._measured.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._closing.set()
        self._measured.join()
        self._stack.close()

    def run(self, attacks: list[Attack], duration: float) -> None:
        """Attack for `duration` [s], and until every class was tried: in turn, all attacks before one is repeated."""
        end, waiting, untried = time.monotonic() + duration, list[Attack](), {attack.kind for attack in attacks}
        while time.monotonic() < end or untried:
            if not waiting:  # short runs have all classes: the first of each class, then the second, and so on
                place = {attack.kind: count() for attack in attacks}
                mixed = [attacks[number] for number in self._rng.permutation(len(attacks))]
                waiting = sorted(mixed, key=lambda attack: next(place[attack.kind]))
            untried.discard(waiting[0].kind)
            self.outcomes.append(self._run(waiting.pop(0)))
            print(self.outcomes[-1], flush=True)

    def _run(self, attack: Attack) -> Outcome:
        outcome = Outcome(attack.name, attack.kind)
        io = self.rig.process_id("io")
        try:
            attack.run(self.access)
        except Exception:  # noqa: BLE001 an attack that fails is an error of this program
            outcome.violations.append(f"the attack failed: {traceback.format_exc(limit=2)}")
        time.sleep(SETTLE)
        for name in ("bridge", "controller"):
            if not self.rig.alive(name):
                outcome.violations.append(f"the {name} ended")
        if not attack.replaces_io and self.rig.alive("bridge") and self.rig.process_id("io") != io:
            outcome.violations.append("the I/O process was replaced")
        recovery = time.monotonic()
        alive = self.rig.alive("bridge") and self.rig.alive("controller")
        if not (alive and self.rig.client.mode == "walking" and self._stiff):
            outcome.outcome, problem = self._recover()
            outcome.recovery = time.monotonic() - recovery
            outcome.violations += problem
        time.sleep(2 * MEASURE_PERIOD)
        found, self._violations = self._violations, []
        outcome.violations += sorted(set(found))
        outcome.violations += self._measure_memory()
        return outcome

    def _recover(self) -> tuple[str, list[str]]:
        """Bring the robot back to walking; if its services fail, by new programs, which is a violation."""
        try:
            self.rig.prepare("walking", RECOVERY_TIME)
            return "recovered", []
        except (TimeoutError, AssertionError) as error:
            problem = f"not brought back to walking: {error}"
        for name in ("bridge", "controller"):
            self.rig.end(name)
        try:
            self.rig.prepare("walking")
        except (TimeoutError, AssertionError) as error:
            if self._strict:
                raise
            return f"not walking on this computer: {error}", []
        return "RESTARTED", [problem]

    def _measure(self) -> None:
        while not self._closing.wait(MEASURE_PERIOD):
            log = self.rig.board.take()
            self._stiff = bool(len(log.arrival)) and bool(log.stiff[-1].any())
            self._violations += self.oracle.check(log)

    def _measure_memory(self) -> list[str]:
        """Return the processes whose memory has grown too much since the robot first walked."""
        found = []
        for name in ("bridge", "io", "controller"):
            process = self.rig.process_id(name)
            if (size := memory(process, "Rss")) is None:
                continue
            growth = size - self._memory.setdefault(process, size)
            self.growth[name] = max(self.growth.get(name, 0.0), growth)
            if growth > MOST_GROWTH:
                self._memory[process] = size
                found.append(f"the memory of the {name} has grown by {growth:.0f} MB")
        return found


def main() -> int:
    """Attack; print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    parser.add_argument("--duration", type=float, default=600.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attacks", default="", help="only attacks whose class or name contains this")
    parser.add_argument("--physics", default="mujoco", choices=("mujoco", "joints"), help="the robot behind the board")
    parser.add_argument("--busy", action="store_true", help="the computer is busy: walking too late is no violation")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args()
    part = options.attacks.lower()
    attacks = [attack for attack in ATTACKS if part in f"{attack.kind} {attack.name}".lower()]
    path, robot = Path(tempfile.gettempdir()) / f"attacker_{options.robot}.log", load_robot(options.robot)
    with path.open("w") as log, Attacker(robot, log, options.seed, options.physics, not options.busy) as attacker:
        attacker.run(attacks, options.duration)
    violations = sum(bool(outcome.violations) for outcome in attacker.outcomes)
    figures = {
        "seed": options.seed,
        "duration": options.duration,
        "attacks": len(attacker.outcomes),
        "commands": attacker.oracle.commands,
        "longest_gap": round(attacker.oracle.longest_gap, 4),
        "violations": violations,
        "memory_growth": {name: round(value, 1) for name, value in attacker.growth.items()},
    }
    if options.json:
        outcomes = [asdict(outcome) for outcome in attacker.outcomes]
        options.json.write_text(json.dumps(figures | {"outcomes": outcomes}, indent=1))
    print(json.dumps(figures))
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
