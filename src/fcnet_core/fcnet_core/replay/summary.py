"""A report in a few lines, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from fcnet_core.replay.evaluation import Evaluation
from fcnet_core.replay.findings import findings

MARKS = {"good": "  ok   ", "note": "  note ", "bad": "  BAD  "}


def summary(evaluation: Evaluation) -> str:
    """The verdict and the most important figures."""
    figures = evaluation.figures
    modes = ", ".join(f"{mode} {seconds:.1f} s" for mode, seconds in figures["modes_s"].items()) or "not recorded"
    lines = [
        f"{evaluation.bag}: {figures['duration_s']:.1f} s of {figures['robot']}; modes: {modes}",
        *(f"{MARKS[finding.level]}{finding.sentence}" for finding in findings(evaluation)),
        *_policies(evaluation),
        *_topics(evaluation),
    ]
    return "\n".join(lines)


def _policies(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.replays:
        yield "  policy   steps  error rms      p99      max [rad]   jerk rms [rad/s^3]  above 8 Hz  file"
    for replay in evaluation.replays:
        figures = evaluation.figures["policies"][replay.label]
        error, smooth = figures["action_error_rad"], figures["smoothness"]
        sizes = "".join(f"{_number(error[name], '9.2g')}" for name in ("rmse", "p99", "max"))
        yield (
            f"  {replay.label:<6}{len(replay.loop.time):>8}  {sizes}         "
            f"{_number(smooth['jerk_rms_rad_s3'], '11.3g')}         {_number(smooth['high_frequency_share'], '9.1%')}"
            f"  {replay.name}"
        )


def _topics(evaluation: Evaluation) -> Iterator[str]:
    yield "  topic               messages   rate [Hz]   gaps   late   out of order"
    for topic, figures in evaluation.figures["timing"]["topics"].items():
        counts = [figures.get(name) for name in ("gaps", "late", "out_of_order")]
        told = "".join(f"{_number(count, '7d')}" for count in counts)
        yield f"  {topic:<18}{figures['messages']:>10}{_number(figures.get('rate_hz'), '12.1f')}{told}"


def _number(value: float | None, form: str) -> str:
    """A figure, or a dash of the same width where it is not known."""
    return "-".rjust(int(form.split(".")[0].rstrip("d"))) if value is None else format(value, form)
