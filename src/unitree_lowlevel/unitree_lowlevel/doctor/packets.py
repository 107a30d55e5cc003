"""Checks of the packets: do states come, how many, whose, and in which shape."""

from __future__ import annotations

import numpy as np

from fcnet_core.robot import Robot
from unitree_lowlevel.doctor.finding import Finding, failed, ok, warning
from unitree_lowlevel.doctor.recording import PERIOD, Recording
from unitree_lowlevel.generation import GENERATIONS, Generation

_GOOD_RATE, _LOWEST_RATE = 0.9 / PERIOD, 0.4 / PERIOD  # [Hz] of states; a policy at 50 Hz lives with the lower one
_BROKEN_SHARE = 0.05  # of the packets
_SLOW_ANSWER = 10.0  # [ms]
_SHORT_STEPS = 0.1  # quantile of the steps of the board's time that is its period
_REJECTIONS = {
    "checksum": "with a wrong checksum: look at cable and plugs, and whether generation is right",
    "size": "of an unknown size: something else than a robot's low level answers on this port",
    "head": "with a wrong head: something else than a robot's low level answers on this port",
    "not_finite": "with values that are not finite numbers: a board or a sensor is broken, do not start this robot",
}


def check_answers(recording: Recording, target: tuple[str, int], generation: Generation) -> Finding:
    """Whether there is anybody who speaks this generation."""
    counters = recording.counters
    if counters.received:
        way = "by itself" if recording.runs_free else "only when commands come"
        return ok("answers", f"{counters.received} states in {recording.duration:.1f} s; this board sends {way}")
    if counters.rejected.get("generation"):
        other = next(name for name in GENERATIONS if name != generation.name)
        return failed(
            "answers",
            f"{target[0]} speaks {other}, not {generation.name}: if it is the right robot, use --generation {other}",
        )
    if counters.rejected:
        return failed("answers", f"{target[0]} sends nothing that can be used, see below")
    if counters.foreign:
        other_address = "{}:{}".format(*counters.last_foreign) if counters.last_foreign else "somebody else"
        return failed("answers", f"nothing from {target[0]}, but {other_address} sends: is that the robot's address?")
    return failed(
        "answers",
        f"nothing from {target[0]}:{target[1]} in {recording.duration:.1f} s: is the robot on, the cable plugged in, "
        "and its sport mode left, as its manual says?",
    )


def check_rejected(recording: Recording) -> Finding:
    """Whether all packets of the robot can be used."""
    rejected = {kind: number for kind, number in recording.counters.rejected.items() if kind != "generation"}
    if not rejected:
        return ok("integrity", "every packet of the robot can be used")
    total = recording.counters.received + sum(rejected.values())
    told = "; ".join(f"{number} of {total} packets {_REJECTIONS.get(kind, kind)}" for kind, number in rejected.items())
    return (failed if sum(rejected.values()) > _BROKEN_SHARE * total else warning)("integrity", told)


def check_sources(recording: Recording) -> Finding:
    """Whether the robot is the only one that sends to this port."""
    counters = recording.counters
    if not counters.foreign:
        return ok("sources", "nobody else sends to this port")
    address = "{}:{}".format(*counters.last_foreign) if counters.last_foreign else "unknown"
    return failed("sources", f"{address} sends to this port, too ({counters.foreign} packets): end that program")


def check_generations(recording: Recording, generation: Generation) -> Finding:
    """Whether a robot of the other generation sends among the right packets."""
    if not (number := recording.counters.rejected.get("generation", 0)):
        return ok("generation", f"every packet is {generation.name}")
    return failed(
        "generation", f"{number} packets are of the other generation: two robots share this network, unplug one"
    )


def check_rate(recording: Recording) -> Finding:
    """Whether 500 states come in a second."""
    rate, sent = recording.counters.received / recording.duration, recording.counters.sent / recording.duration
    told = f"{rate:.0f} states a second for {sent:.0f} commands"
    if rate >= _GOOD_RATE:
        return ok("rate", told)
    advice = "use the cable, not Wi-Fi, and see whether this computer is busy"
    if rate >= _LOWEST_RATE:
        return warning("rate", f"{told}, {1 / PERIOD:.0f} would be right: {advice}")
    return failed("rate", f"{told}, at least {_LOWEST_RATE:.0f} are needed: {advice}")


def check_loss(recording: Recording, robot: Robot) -> Finding:
    """How many states were lost on the way."""
    counters, loss = recording.counters, lost_fraction(recording)
    told = f"{loss:.1%} of the states are lost, {counters.duplicates} came twice, {counters.old} were overtaken"
    if loss >= robot.safety.max_packet_loss:
        return failed("loss", f"{told}: the bridge would trip; replace the cable, leave Wi-Fi")
    if loss >= robot.safety.packet_loss_warning or counters.old:
        return warning("loss", f"{told}: look at cable, plugs and switch")
    return ok("loss", told)


def lost_fraction(recording: Recording) -> float:
    """How many of the states that should have come did not, 0 to 1.

    A board that runs free numbers its states by its time, and most steps of it may be long because states were lost or
    this computer was slow: the short ones tell its period. Of one that answers, a state is due for every command.
    """
    counters, ticks = recording.counters, recording.ticks
    steps = np.diff(ticks)
    steps = steps[steps > 0]
    if not recording.runs_free:
        due = float(counters.sent)
    elif steps.size and not counters.restarts:
        due = 1.0 + float(ticks[-1] - ticks[0]) / float(np.quantile(steps, _SHORT_STEPS))
    else:
        return 0.0
    return max(0.0, 1.0 - (counters.received - counters.duplicates) / due)


def check_round_trip(recording: Recording) -> Finding:
    """How long it takes from a command to its answer, where the board answers."""
    if recording.runs_free:
        return ok("round trip", "not to be seen: this board sends by itself")
    times = 1e3 * recording.answer_times
    if not times.size:
        return warning("round trip", "single commands had no answer")
    half, most = np.quantile(times, (0.5, 0.99))
    told = f"p50 {half:.1f}, p99 {most:.1f} ms from a command to its answer"
    if most > _SLOW_ANSWER:
        return warning("round trip", f"{told}: use the cable, not Wi-Fi, and see whether this computer is busy")
    return ok("round trip", told)
