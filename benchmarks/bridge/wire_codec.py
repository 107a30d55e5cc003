"""How long one cycle of a bridge takes at the codec: a command encoded and a state decoded, each with its checksum.

    python benchmarks/bridge/wire_codec.py
    python benchmarks/bridge/wire_codec.py --damaged 10000000 --seed 0

Rounds of a few cycles of both generations in turn, so that whatever else the machine does meets both. Ends with 1 when
the limit is missed. With --damaged, as many damaged states and commands of both generations are decoded instead, states
by a transport; an exception other than a counted rejection ends it. --progress says what there is so far.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import numpy.typing as npt

from fcnet_core.errors import WireError
from unitree_lowlevel.codec import (
    GENERATIONS,
    SERVO,
    Generation,
    LowCommand,
    LowState,
    crc32_mpeg2,
    decode_command,
    decode_state,
    encode_command,
    encode_state,
)
from unitree_lowlevel.transport import WireTransport

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
    parser.add_argument("--damaged", type=int, default=0, metavar="N", help="decode so many damaged datagrams instead")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the damage (0)")
    parser.add_argument("--progress", type=int, default=1_000_000, metavar="N", help="datagrams between two reports")
    args = parser.parse_args()
    if args.damaged:
        decode_damaged(args.damaged, args.seed, args.progress)
        return 0
    rounds = args.rounds
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


ROBOT = ("192.0.2.1", 8007)
FLOAT_BITS = (0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 0x00000001, 0x80000000)


def decode_damaged(count: int, seed: int, progress: int) -> Counter[str]:
    """Decode damaged datagrams, in turn states and commands of each generation; how often which outcome was met.

    Whatever is raised but WireError passes through, warnings too; the datagram is printed then.
    """
    warnings.simplefilter("error")
    random, outcomes, began = Random(seed), Counter[str](), time.process_time()
    transports = {name: WireTransport(generation, ROBOT) for name, generation in GENERATIONS.items()}
    states = {name: encode_state(generation, STATE) for name, generation in GENERATIONS.items()}
    commands = {name: encode_command(generation, COMMAND) for name, generation in GENERATIONS.items()}
    for number in range(count):
        name = ("gen33", "gen38")[number & 1]
        generation, is_state = GENERATIONS[name], bool(number & 2)
        checked = generation.state_checked if is_state else generation.command_checked
        damage = DAMAGES[number // 4 % len(DAMAGES)]
        datagram = damage((states if is_state else commands)[name], generation.head, checked, random)
        try:
            if is_state:
                transports[name]._accept(datagram, ROBOT)
            else:
                decode_command(generation, datagram)
                outcomes["command accepted"] += 1
        except WireError as error:
            outcomes[f"command rejected: {error.kind}"] += 1
        except BaseException:
            print(f"datagram {number} of seed {seed}: {datagram.hex()}", file=sys.stderr)
            raise
        if (number + 1) % progress == 0 or number + 1 == count:
            counters = [transport.counters for transport in transports.values()]
            outcomes["state accepted"] = sum(each.received for each in counters)
            for kind in {kind for each in counters for kind in each.rejected}:
                outcomes[f"state rejected: {kind}"] = sum(each.rejected.get(kind, 0) for each in counters)
            assert sum(outcomes.values()) == number + 1, "a datagram was not counted"
            spent = time.process_time() - began
            print(f"{number + 1:,} damaged datagrams of seed {seed} in {spent:.0f} s of processor time:", flush=True)
            print(", ".join(f"{times:,} {what}" for what, times in sorted(outcomes.items())), flush=True)
    return outcomes


def _sealed(body: bytes, checked: int) -> bytes:
    """With the checksum that the receiver expects, so that what is within is looked at."""
    return body[:-4] + crc32_mpeg2(body[:checked]).to_bytes(4, "little")


def _flipped(datagram: bytes, _head: bytes, _checked: int, random: Random) -> bytes:
    damaged = bytearray(datagram)
    for _ in range(1 + random.randrange(4)):
        bit = random.randrange(8 * len(damaged))
        damaged[bit >> 3] ^= 1 << (bit & 7)
    return bytes(damaged)


def _flipped_and_sealed(datagram: bytes, head: bytes, checked: int, random: Random) -> bytes:
    return _sealed(_flipped(datagram, head, checked, random), checked)


def _odd_numbers(datagram: bytes, _head: bytes, checked: int, random: Random) -> bytes:
    """Infinities, quiet and signalling NaN, denormal and largest numbers, wherever."""
    damaged = bytearray(datagram)
    for _ in range(1 + random.randrange(4)):
        at, bits = random.randrange(len(damaged) - 4), FLOAT_BITS[random.randrange(len(FLOAT_BITS))]
        damaged[at : at + 4] = bits.to_bytes(4, "little")
    return _sealed(bytes(damaged), checked)


def _cut(datagram: bytes, _head: bytes, _checked: int, random: Random) -> bytes:
    return datagram[: random.randrange(len(datagram))]


def _extended(datagram: bytes, _head: bytes, _checked: int, random: Random) -> bytes:
    return datagram + random.randbytes(1 + random.randrange(600))


def _random_and_sealed(datagram: bytes, head: bytes, checked: int, random: Random) -> bytes:
    return _sealed(head + random.randbytes(len(datagram) - len(head)), checked)


def _random(_datagram: bytes, head: bytes, _checked: int, random: Random) -> bytes:
    return (head if random.random() < 0.5 else b"") + random.randbytes(random.randrange(1500))


DAMAGES: tuple[Callable[[bytes, bytes, int, Random], bytes], ...] = (
    *(_flipped, _flipped_and_sealed, _odd_numbers, _cut, _extended, _random_and_sealed, _random),
)


if __name__ == "__main__":
    sys.exit(main())
