"""The table at the end of the demo."""

from __future__ import annotations

from fcnet_controller.course_score import CourseScore

SLOW = 0.95  # of the wanted real-time factor


def course_report(score: CourseScore, elapsed: float, health: dict[str, str]) -> str:
    """A table of `score` after `elapsed` [s], with the controller's and the simulator's figures in `health`."""
    vx, vy, yaw_rate = score.tracking_error
    rows = [
        ("time", f"{elapsed:.1f} s"),
        ("distance", f"{score.distance:.1f} m"),
        ("tracking error", f"vx {vx:.3f} m/s   vy {vy:.3f} m/s   yaw rate {yaw_rate:.3f} rad/s"),
        ("falls", str(score.falls)),
        ("control rate", f"{health.get('rate_hz', '?')} Hz"),
        ("deadline misses", health.get("deadline_misses", "?")),
        ("step latency", f"p50 {health.get('step_p50_ms', '?')} ms   p99 {health.get('step_p99_ms', '?')} ms"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def slowness(health: dict[str, str]) -> str | None:
    """A sentence where the simulation ran slower than it was told to."""
    achieved, wanted = float(health.get("slowest_factor", "nan")), float(health.get("wanted_real_time_factor", "nan"))
    if not achieved < SLOW * wanted:
        return None
    return (
        f"The simulation ran at {achieved:.2f} instead of {wanted:.2f} times real time at its slowest: this machine is "
        "busy. Close other programs and try again before you judge the figures."
    )
