"""How long one cycle of a bridge takes at the codec: a command encoded and a state decoded, each with its checksum.

    python benchmarks/bridge/wire_codec.py

Rounds of a few cycles of both generations in turn, so that other work of the machine affects both. Exit code 1: the
limit is missed.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import numpy.typing as npt

from unitree_lowlevel.codec import (
    GENERATIONS,
    SERVO,
    Generation,
    LowCommand,
    LowState,
    decode_state,
    encode_command,
    encode_state,
)

LIMIT_US = 150.0
CYCLES = 50  # of one generation in a round
COMMAND = LowCommand(
    mode=np.full(12, SERVO, dtype=np.uint8),
    position=np.tile([0.1, 0.8, -1.6], 4),
    velocity=np.zeros(12),
    torque=np.linspace(-5.0, 5.0, 12),
    stiffness=np.full(12, 40.0),
    damping=np.full(12, 1.5),
)
STATE = LowState(
    mode=COMMAND.mode,
    position=COMMAND.position,
    velocity=COMMAND.torque,
    torque=COMMAND.torque,
    temperature=np.full(12, 35.0),
    orientation=np.array([0.0, 0.0, 0.0, 1.0]),
    angular_velocity=np.array([0.1, 0.2, 0.3]),
    linear_acceleration=np.array([0.0, 0.0, 9.81]),
    imu_temperature=40.0,
    foot_force=np.array([50.0, 60.0, 70.0, 80.0]),
    tick=123456,
    remote=bytes(40),
    identity=(1, 2),
)


def main() -> int:
    """Measure and print; 1 where the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="rounds over both generations (100)")
    rounds = parser.parse_args().rounds
    times = measure(rounds)
    print(f"a command encoded and a state decoded, {rounds} rounds of {CYCLES} cycles, limit {LIMIT_US:.0f} us")
    print(f"{'generation':<12} {'p50 us':>8} {'p90 us':>8} {'of limit':>9}   round by round, 10 to 90 %")
    for name, cycles in times.items():
        p50, p90 = np.quantile(cycles, [0.5, 0.9])
        low, middle, high = np.quantile(np.median(cycles, axis=1) / LIMIT_US, [0.1, 0.5, 0.9])
        print(f"{name:<12} {p50:8.1f} {p90:8.1f} {middle:8.2f}x   {low:.2f} to {high:.2f}x")
    return int(any(np.median(cycles) > LIMIT_US for cycles in times.values()))


def measure(rounds: int) -> dict[str, npt.NDArray[np.float64]]:
    """Times [us] of one cycle (rounds, CYCLES), by generation."""
    datagrams = {name: encode_state(generation, STATE) for name, generation in GENERATIONS.items()}
    times: dict[str, list[list[float]]] = {name: [] for name in GENERATIONS}
    for _ in range(rounds):
        for name, generation in GENERATIONS.items():
            times[name].append([_cycle(generation, datagrams[name]) for _ in range(CYCLES)])
    return {name: np.array(measured) for name, measured in times.items()}


def _cycle(generation: Generation, datagram: bytes) -> float:
    begin = time.perf_counter_ns()
    encode_command(generation, COMMAND)
    decode_state(generation, datagram)
    return (time.perf_counter_ns() - begin) / 1000


if __name__ == "__main__":
    sys.exit(main())
