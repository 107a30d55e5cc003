"""Measures a robot's bridge at the wire while controller and policy run: how regular its commands are, and the time
from a state on the wire to the command that responds to it.

Real processes, DDS and UDP. The motor board is a process of its own, with SCHED_FIFO where that is permitted, and takes
the kernel's times of arrival: a busy computer is measured, not the meter. Run it in a shell after `. env.sh`, on an
otherwise idle machine:
    python benchmarks/bridge/wire_loop.py --duration 60
    python benchmarks/bridge/wire_loop.py --duration 60 --busy 8 --params-file config/bridges/real_time.yaml
    python benchmarks/bridge/wire_loop.py --duration 60 --busy 8      # without SCHED_FIFO: damped in time, every time
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
from board_process import BoardProcess
from distortions import TILTED
from fault_rig import FaultRig
from wire_oracle import WireOracle

from fcnet_core.robot import Robot, load_robot

SETTLE = 2.0  # [s] for the policy's window to fill with a robot at rest
FIRST_CHANGE = 2e-3  # [rad] between two commands, many times what a robot at rest shows
RESPONSE_TIMEOUT = 0.5  # [s]
RETRY_TIME = 15.0  # [s]
PIECE = 5.0  # [s] of walking between two looks at the wire
LONGEST_SILENCE = 0.1  # [s] on the wire while the joints are stiff
SLACK = 0.05  # [s] that a busy computer may add to a deadline


# Least mean rate [Hz] and largest p99 of the period [ms] while walking, without and with busy processes; largest p50 of
# the latency at 50 Hz [ms].
IDLE, LOADED, LATENCY = (499.5, 3.0), (499.0, 4.0), 15.0


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Run `count` processes that compute without end, at normal priority."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def bring_back(rig: FaultRig) -> None:
    """Let a robot that was damped walk again, if this computer has the time for it."""
    with suppress(AssertionError, TimeoutError):
        rig.prepare("walking", RETRY_TIME)


def measure_rate(robot: Robot, duration: float, params_file: str, load: int) -> dict[str, float]:
    """Walk in MuJoCo behind the wire and measure when commands arrive at the board."""
    oracle = WireOracle(robot, slack=SLACK if load else 0.0)
    arrivals: list[float] = []
    silences, violations, soft, damped = 0, 0, 0, 0
    with FaultRig(robot, sys.stderr, params_file=params_file, speed=0.4) as rig:
        rig.prepare("walking")
        time.sleep(SETTLE)
        rig.board.take()
        lost = rig.board.time_lost()
        with busy(load):
            end = time.monotonic() + duration
            while (left := end - time.monotonic()) > 0.0:
                time.sleep(min(PIECE, left))
                log = rig.board.take()
                arrivals += log.arrival.tolist()
                stiff = log.largest_stiffness > 0.0
                silences += int(((np.diff(log.arrival) > LONGEST_SILENCE) & stiff[:-1]).sum())
                soft += int((~stiff).sum())
                damped += int((stiff[:-1] & ~stiff[1:]).sum())
                for violation in oracle.check(log):
                    print(f"  unsafe: {violation}", flush=True)
                    violations += 1
                if rig.client.mode != "walking":
                    bring_back(rig)
        lost = rig.board.time_lost() - lost
    period = 1e3 * np.diff(arrivals)
    return {
        "command rate [Hz]": (len(arrivals) - 1) / (arrivals[-1] - arrivals[0]),
        "period p50 [ms]": float(np.quantile(period, 0.5)),
        "period p99 [ms]": float(np.quantile(period, 0.99)),
        "period max [ms]": float(period.max()),
        "stiff over 0.1 s of silence": silences,
        "unsafe commands": violations,
        "damped [times]": damped,
        "damped [share]": soft / len(arrivals),
        "board's lost time [s]": lost,
    }


def measure_latency(robot: Robot, control_rate: float, nudges: int, params_file: str) -> dict[str, float]:
    """Tilt the trunk of a robot at rest at random times; measure the time to the first response."""
    rng = np.random.default_rng(0)
    latencies, not_followed = [], 0
    with FaultRig(robot, sys.stderr, "joints", params_file, 0.0, control_rate=control_rate) as rig:
        rig.prepare("walking")
        for _ in range(nudges):
            time.sleep(SETTLE + rng.uniform(0.0, 0.1))
            if rig.client.mode != "walking" or not rig.board.take().stiff[-1].any():
                not_followed += 1  # a robot that is damped responds to nothing
                bring_back(rig)
                continue
            latencies.append(_latency(rig.board))
    known = 1e3 * np.array([latency for latency in latencies if latency is not None])
    quantiles = np.quantile(known, [0.5, 0.9, 1.0]) if known.size else np.full(3, np.inf)
    return {
        "responses": len(known),
        "without response": len(latencies) - len(known),
        "robot not followed": not_followed,
        **dict(zip(("latency p50 [ms]", "latency p90 [ms]", "latency max [ms]"), quantiles.tolist(), strict=True)),
    }


def _latency(board: BoardProcess) -> float | None:
    """Return the seconds from the first tilted state to the first command that differs from the one before it."""
    board.distort(TILTED)
    time.sleep(RESPONSE_TIMEOUT)
    tilted_at = board.distort("")
    log = board.take()
    if tilted_at is None:
        return None
    before = log.position[np.searchsorted(log.arrival, tilted_at) - 1]
    changed = (log.arrival > tilted_at) & (np.abs(log.position - before).max(axis=1) > FIRST_CHANGE)
    return float(log.arrival[changed.argmax()] - tilted_at) if changed.any() else None


def show(title: str, figures: dict[str, float]) -> None:
    """Print figures, one a line."""
    print(title, *(f"  {name:<28} {value:>9.3f}" for name, value in figures.items()), sep="\n", flush=True)


def run(robot: Robot, options: argparse.Namespace, aims: tuple[float, float] | None) -> bool:
    """Measure once; return whether the aims are reached. Without aims only damping in time counts."""
    rate = measure_rate(robot, options.duration, options.params_file, options.busy)
    aim = "rate >= {:g}, p99 < {:g}".format(*aims) if aims else "damped in time"
    load = f"load average {os.getloadavg()[0]:.1f}"
    show(f"commands on the wire over {options.duration:g} s of walking, {load} ({aim})", rate)
    good = not rate["stiff over 0.1 s of silence"] and not rate["unsafe commands"]
    if aims:
        good = good and rate["command rate [Hz]"] >= aims[0] and rate["period p99 [ms]"] < aims[1]
    for control_rate in (50.0, 200.0) if options.nudges and not options.busy else ():
        latency = measure_latency(robot, control_rate, options.nudges, options.params_file)
        show(f"state on the wire to command on the wire at {control_rate:g} Hz", latency)
        if control_rate == 50.0:
            good = good and latency["latency p50 [ms]"] < LATENCY and latency["responses"] == options.nudges
    print("  reached" if good else "  MISSED", flush=True)
    return good


def main() -> int:
    """Measure and print; return 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of walking")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute at normal priority during the run")
    parser.add_argument("--nudges", type=int, default=20, help="measurements of the latency at each rate, 0 for none")
    parser.add_argument("--params-file", default="", help="such as config/bridges/real_time.yaml")
    options = parser.parse_args()
    aims = IDLE if not options.busy else LOADED if options.params_file else None
    results = [run(load_robot(options.robot), options, aims) for _ in range(options.runs)]
    print(f"{sum(results)} of {len(results)} runs reached every aim")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
