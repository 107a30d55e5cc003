"""How long commands and states take between numbers and bytes, and whether the codec survives every datagram.

    python benchmarks/wire_codec.py                       # a million random or damaged datagrams, then the times
    python benchmarks/wire_codec.py --datagrams 10000

The limit is for one cycle of the bridge: a command encoded and a state decoded, each with its checksum. Rounds of a few
cycles of both generations in turn, so that whatever else the machine does meets both. Ends with 1 when a datagram
raised anything but a WireError, when one was decoded to something that is not finite, or when the limit is missed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields

import numpy as np

from unitree_lowlevel.codec import (
    GEN33,
    GEN38,
    GENERATIONS,
    SERVO,
    Generation,
    LowCommand,
    LowState,
    WireError,
    crc32_mpeg2,
    decode_command,
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

Decoder = Callable[[Generation, bytes], LowCommand | LowState]


def main() -> int:
    """Damaged datagrams, then times; prints both."""
    args = _arguments()
    unexpected = _print_outcomes(args.datagrams)
    times = {name: np.array(rounds) for name, rounds in measure(args.rounds).items()}
    print(f"a command encoded and a state decoded, {args.rounds} rounds of {CYCLES} cycles, limit {LIMIT_US:.0f} us")
    print(f"{'generation':<12} {'p50 us':>8} {'p90 us':>8} {'of limit':>9}   round by round, 10 to 90 %")
    for name, rounds in times.items():
        p50, p90 = np.quantile(rounds, [0.5, 0.9])
        low, middle, high = np.quantile(np.median(rounds, axis=1) / LIMIT_US, [0.1, 0.5, 0.9])
        print(f"{name:<12} {p50:8.1f} {p90:8.1f} {middle:8.2f}x   {low:.2f} to {high:.2f}x")
    return int(unexpected > 0 or any(np.median(rounds) > LIMIT_US for rounds in times.values()))


def hostile_datagrams(generation: Generation, count: int, seed: int) -> Iterator[tuple[Decoder, bytes]]:
    """Random and damaged datagrams, and the function that is to decode each; some have a checksum that is right."""
    chance = random.Random(seed)
    other = GEN38 if generation is GEN33 else GEN33
    commands: tuple[Decoder, bytes, int, bytes] = (
        decode_command,
        encode_command(generation, COMMAND),
        generation.command_checked,
        encode_command(other, COMMAND),
    )
    states: tuple[Decoder, bytes, int, bytes] = (
        decode_state,
        encode_state(generation, STATE),
        generation.state_checked,
        encode_state(other, STATE),
    )
    for _ in range(count):
        decoder, good, checked, foreign = chance.choice((commands, states))
        kind = chance.randrange(6)
        if kind == 0:
            datagram = chance.randbytes(chance.randrange(1500))
        elif kind == 1:
            datagram = sealed(generation.head + chance.randbytes(len(good) - len(generation.head)), checked)
        elif kind == 2:
            datagram = flipped(chance, good)
        elif kind == 3:
            datagram = sealed(flipped(chance, good), checked)
        elif kind == 4:
            datagram = (good + chance.randbytes(64))[: chance.randrange(len(good) + 64)]
        else:
            datagram = foreign
        yield decoder, datagram


def sealed(datagram: bytes, checked: int) -> bytes:
    """The datagram with its checksum made right."""
    return datagram[:-4] + crc32_mpeg2(datagram[:checked]).to_bytes(4, "little")


def flipped(chance: random.Random, datagram: bytes) -> bytes:
    """The datagram with one to eight bits turned over."""
    damaged = bytearray(datagram)
    for _ in range(chance.randint(1, 8)):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def outcome(decoder: Decoder, generation: Generation, datagram: bytes) -> str:
    """The outcome of a datagram: "decoded", the kind of WireError, or what must not be, with an exclamation mark."""
    try:
        decoded = decoder(generation, datagram)
    except WireError as error:
        return error.kind
    except Exception as error:  # noqa: BLE001 - what must not be is counted
        return f"{type(error).__name__}!"
    values = (getattr(decoded, one.name) for one in fields(decoded))
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    return "decoded" if np.isfinite(np.concatenate(arrays)).all() else "not finite!"


def measure(rounds: int) -> dict[str, list[list[float]]]:
    """Times [us] of one cycle, by generation, a list per round."""
    datagrams = {name: encode_state(generation, STATE) for name, generation in GENERATIONS.items()}
    times: dict[str, list[list[float]]] = {name: [] for name in GENERATIONS}
    for _ in range(rounds):
        for name, generation in GENERATIONS.items():
            times[name].append([_cycle(generation, datagrams[name]) for _ in range(CYCLES)])
    return times


def _cycle(generation: Generation, datagram: bytes) -> float:
    begin = time.perf_counter_ns()
    encode_command(generation, COMMAND)
    decode_state(generation, datagram)
    return (time.perf_counter_ns() - begin) / 1000


def _print_outcomes(count: int) -> int:
    outcomes: Counter[str] = Counter()
    for seed, generation in enumerate(GENERATIONS.values()):
        for decoder, datagram in hostile_datagrams(generation, count // len(GENERATIONS), seed):
            outcomes[outcome(decoder, generation, datagram)] += 1
    unexpected = sum(number for name, number in outcomes.items() if name.endswith("!"))
    listed = ", ".join(f"{name} {number:,}" for name, number in outcomes.most_common())
    print(f"{outcomes.total():,} random or damaged datagrams, {unexpected} unexpected outcomes: {listed}")
    return unexpected


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Damaged datagrams through the wire codec, and its times.")
    parser.add_argument("--datagrams", type=int, default=1_000_000, metavar="N", help="damaged datagrams (1000000)")
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="rounds over both generations (100)")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
