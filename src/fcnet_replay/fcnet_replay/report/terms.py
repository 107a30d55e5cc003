"""The words of reports: one term for each figure, the same on a page, in a terminal and in the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fcnet_core.document import table

# Of a finding; the gravest first. A page and a terminal show the word.
LEVELS = {"bad": "problem", "note": "note", "good": "ok"}
QUANTILES = {"p50": "median", "p95": "95 %", "p99": "99 %", "max": "largest"}
SPREAD = {"rmse": "RMS", **QUANTILES}
VELOCITIES = {"forward": "m/s", "sideways": "m/s", "yaw rate": "rad/s"}  # in the trunk's frame
MEANINGS = {
    "95 %, 99 %": "the value below which 95 or 99 of 100 samples lie",
    "above 8 Hz": "share of the targets' motion that is faster than a leg can follow, and heats its motors",
    "attitude": "roll and pitch of the trunk, by the IMU; commanded: relative to the ground",
    "contact": "a foot carries more than 5 % of the weight and does not rise or fall, by joints, torques and IMU",
    "cost of transport": "positive mechanical work of the joints per weight and distance",
    "duty": "share of the walking time for which a foot is in contact",
    "error": "a policy's target less the one that was sent, in the same situation, with the same memory",
    "gap": "an interval of more than three times the usual one, by the stamps",
    "height": "of the trunk's centre above the lowest foot",
    "jerk": "third derivative of the targets",
    "late": "received more than 20 ms after its stamp",
    "latency": "from the stamp of the joint states that a step saw to that of its targets",
    "power": "mechanical: sum over the joints of |torque x velocity|, which the safety layer limits",
    "return": "what an episode earns: for following the command, less effort and jerk",
    "RMS": "root mean square",
    "stance, swing": "how long a foot stays in contact, and off the ground",
    "target": "position that the policy commands a joint",
    "tilt": "angle of the trunk to gravity",
    "torque": "of a joint, estimated by its motor [Nm]",
    "tracking error": "measured less commanded; of joints, soft ones need some to push with",
    "touchdowns": "of a foot, beginnings of a contact",
    "velocity": "forward (vx), sideways (vy), yaw rate in the trunk's frame; measured: mean over half a second",
}


def glossary(terms: Iterable[str]) -> str:
    """A table of what these terms mean."""
    return table(["term", "meaning"], [[term, MEANINGS[term]] for term in sorted(terms, key=str.lower)]).replace(
        "<table>", '<table class="facts">'
    )


def shares(parts: dict[str, float]) -> dict[str, str]:
    """Each part as a share of the sum, in whole per mille that together are 100.0 % (largest remainders)."""
    total = sum(parts.values())
    if total <= 0:
        return dict.fromkeys(parts, "–")
    exact = {name: 1000 * part / total for name, part in parts.items()}
    whole = {name: int(share) for name, share in exact.items()}
    rest = sorted(exact, key=lambda name: whole[name] - exact[name])[: 1000 - sum(whole.values())]
    return {name: f"{(whole[name] + (name in rest)) / 10:.1f} %" for name in parts}


def numbers(
    figures: Mapping[str, float | None], names: Iterable[str], form: str = ".3g", scale: float = 1.0
) -> list[str]:
    """Return the figures of these names as cells of a table."""
    return [number(figures.get(name), form, scale=scale) for name in names]


def number(value: float | None, form: str = ".3g", unit: str = "", scale: float = 1.0) -> str:
    """A figure with its unit, or a dash where it is not known."""
    return "–" if value is None or value != value else f"{value * scale:{form}}{unit}"
