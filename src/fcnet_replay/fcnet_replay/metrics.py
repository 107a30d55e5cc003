"""Figures of a replay, fit for JSON: errors, tracking, smoothness, motion and timing."""

from typing import Any

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.names import IMU, JOINT_STATES, JOINT_TRAJECTORY, ODOM, Mode, TopicName
from fcnet_core.robot import Robot
from fcnet_core.rotation import tilt
from fcnet_replay.policy_replay import PolicyReplay
from fcnet_replay.run import STALE, Run, newest

AGREEMENT = 1e-5  # [rad] max. difference between the targets of a policy and its replay
NEAR = 1e-3  # [rad] a target this near to a limit is at it
FULL = 0.99  # share of the torque limit from which on a torque is at it
AXES = ("forward_m_s", "sideways_m_s", "yaw_rate_rad_s")
STRIDE = 0.5  # [s] over which the measured velocity is averaged: a body sways within its stride
GRID = 0.02  # [s] between two compared commands without steps
LONGEST = 7200.0  # [s] of commands without steps
HIGH_FREQUENCY = 8.0  # [Hz] above the relevant harmonics of a stride of 2 to 3 Hz
SEGMENT = 128  # samples of one spectrum: 2.6 s at 50 Hz
AT_REST = (Mode.PASSIVE.value, Mode.FAULT.value)  # modes in which the controller damps, with or without states
GAP = 3.0  # usual intervals; longer is a gap
LATE = 0.02  # [s] between a message's stamp and its reception
UNKNOWN = "unknown_share"  # the figure of quantiles that leave out values which were not measured


def quantiles(values: Array) -> dict[str, float | None]:
    """Return quantiles and maximum of the finite values, None without any, and the share of others if there are any."""
    known = values[np.isfinite(values)]
    if not known.size:
        return dict.fromkeys(("p50", "p95", "p99", "max"))
    p50, p95, p99 = np.percentile(known, (50, 95, 99))
    unknown = {UNKNOWN: 1.0 - known.size / values.size} if known.size < values.size else {}
    return {"p50": float(p50), "p95": float(p95), "p99": float(p99), "max": float(known.max()), **unknown}


def root_mean_square(values: Array) -> float | None:
    """Return the root mean square of the finite values; None without any."""
    known = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(np.square(known)))) if known.size else None


def mode_spans(run: Run) -> list[tuple[str, float, float]]:
    """Return each mode with its begin and end [s] by the robot's clock; the last ends with the recording."""
    end = max(float(part.received.max()) for part in (run.joints, run.imu))
    times = run.by_robots_clock(np.append(run.mode.received, end)).tolist()
    return list(zip(run.mode.modes, times, times[1:], strict=False))


def mode_times(run: Run) -> dict[str, float]:
    """Return the time [s] by the robot's clock in each mode, in the order of first appearance."""
    total: dict[str, float] = {}
    for mode, begin, end in mode_spans(run):
        total[mode] = total.get(mode, 0.0) + max(end - begin, 0.0)
    return total


def action_error(replay: PolicyReplay) -> dict[str, Any]:
    """Return the error [rad] of the comparable steps, over all joints and of each; `agrees`: all within AGREEMENT."""
    compared = np.isfinite(replay.error).all(axis=1)
    error = replay.error[compared]
    return {
        "steps": len(error),
        "uncompared_steps": int((~compared).sum()),
        "lost_steps": replay.lost,
        "missing_steps": replay.missing,
        **_sizes(error),
        "agrees": bool(len(error) and np.abs(error).max() <= AGREEMENT),
        "joints": {joint: _sizes(values) for joint, values in zip(replay.joint_names, error.T, strict=True)},
    }


def policy_difference(one: PolicyReplay, other: PolicyReplay) -> dict[str, Any]:
    """Return the difference [rad] of the targets of two policies in the same steps, over all joints."""
    _, first, second = np.intersect1d(one.time, other.time, return_indices=True)
    return {"steps": len(first), **_sizes(other.action[second] - one.action[first])}


def _sizes(error: Array) -> dict[str, float | None]:
    return {"rmse": root_mean_square(error), **quantiles(np.abs(error))}


def body_motion(run: Run, robot: Robot) -> dict[str, Any]:
    """Return tilt [rad], torque as share of each joint's limit, tracking error [rad], and shares of time at limits."""

    def share(hits: Mask) -> float | None:
        return float(hits.any(axis=1).mean()) if len(hits) else None

    time = run.joints.received
    row = newest(run.imu.received, time + STALE)  # states without an IMU message within STALE have an unknown tilt
    silent = np.full(np.count_nonzero((row < 0) | (time - run.imu.received[row] > STALE)), np.nan)
    effort = np.abs(run.joints.effort) / robot.torque_limit
    measured = effort[np.isfinite(effort).all(axis=1)]
    sent = run.targets.position[np.isfinite(run.targets.position).all(axis=1)]
    at_limit = (sent <= robot.lower + NEAR) | (sent >= robot.upper - NEAR)
    return {
        "tilt_rad": quantiles(np.append(tilt(run.imu.orientation), silent)),
        "torque_of_limit": {joint: quantiles(effort[:, index]) for index, joint in enumerate(run.joint_names)},
        "share_of_time_at_torque_limit": share(measured >= FULL),
        "share_of_targets_at_position_limit": share(at_limit),
        "joint_tracking_error_rad": root_mean_square(tracking_error(run)),
    }


def tracking_error(run: Run) -> Array:
    """Return measured less commanded joint positions (N, J) [rad] at the joint states; NaN while joints are damped."""
    return run.joints.position - run.targets_in_effect()


def velocities(run: Run) -> tuple[Array, Array, Array | None]:
    """Return times (T,) [s], and commanded and measured velocities (T, 3): forward, sideways [m/s], yaw rate [rad/s].

    At the recorded steps of a policy, else all the time. Measured: means over STRIDE; None without odom.
    """
    if len(run.steps.target_stamp):
        time, commanded = run.steps.target_stamp, run.steps.setpoint[:, :3]
    else:
        first, last = run.joints.stamp[[0, -1]]
        time = np.arange(first, min(last, first + LONGEST), GRID)
        commanded = run.setpoints.at(run.joints.received[newest(run.joints.stamp, time)])[:, :3]
    odometry = run.odometry.known("velocity", "angular_velocity")
    if not len(odometry.stamp):
        return time, commanded, None
    moving = np.column_stack([odometry.velocity[:, :2], odometry.angular_velocity[:, 2]])
    total = np.vstack([np.zeros(3), np.cumsum(moving, axis=0)])
    first, end = (np.searchsorted(odometry.stamp, time + side * STRIDE / 2) for side in (-1, 1))
    count = (end - first)[:, None]
    return time, commanded, np.where(count > 0, (total[end] - total[first]) / np.maximum(count, 1), np.nan)


def command_tracking(commanded: Array, measured: Array | None) -> dict[str, Any] | None:
    """Return root mean square and mean of measured less commanded velocity (T, 3) by axis; None if not measured."""
    if measured is None:
        return None
    tracking: dict[str, Any] = {}
    for axis, error in zip(AXES, (measured - commanded).T, strict=True):
        known = error[np.isfinite(error)]
        tracking[axis] = {"rmse": root_mean_square(known), "mean": float(known.mean()) if len(known) else None}
        if known.size < error.size:
            tracking[axis][UNKNOWN] = 1.0 - known.size / error.size
    return tracking


def smoothness(targets: Array, cold: Mask, period: float) -> dict[str, Any]:
    """Return jerk and high-frequency share of targets (K, J) [rad] sent every `period` [s], between cold starts."""
    parts = [part for part in np.split(targets, np.flatnonzero(cold)) if len(part) > 3]
    jerk = [np.diff(part, n=3, axis=0) / period**3 for part in parts]
    frequency, power = spectrum(targets, cold, period)
    moving = power[frequency > 0].sum(axis=0)
    high = power[frequency > HIGH_FREQUENCY].sum(axis=0)
    share = np.divide(high, moving, out=np.zeros_like(high), where=moving > 0)
    return {
        "jerk_rms_rad_s3": root_mean_square(np.concatenate(jerk)) if jerk else None,
        "high_frequency_share": float(share.mean()) if (moving > 0).any() else None,
        "high_frequency_hz": HIGH_FREQUENCY,
    }


def spectrum(targets: Array, cold: Mask, period: float) -> tuple[Array, Array]:
    """Return frequencies (F,) [Hz] and mean power (F, J) [rad^2] of each joint's targets, by Welch's method: Hann
    windows of SEGMENT samples without their means, which overlap by half and contain no cold start.

    Equals scipy.signal.welch, which is not used because its import takes 1.7 s, twice as long as a replay.
    """
    frequency: Array = np.fft.rfftfreq(SEGMENT, period).astype(np.float64)
    window = np.hanning(SEGMENT)[:, None]
    power = [np.zeros((len(frequency), targets.shape[1]))]
    for part in np.split(targets, np.flatnonzero(cold)):
        for start in range(0, len(part) - SEGMENT + 1, SEGMENT // 2):
            piece = part[start : start + SEGMENT]
            power.append(np.square(np.abs(np.fft.rfft((piece - piece.mean(axis=0)) * window, axis=0))))
    return frequency, np.sum(power, axis=0) * 2.0 / (max(len(power) - 1, 1) * float(np.square(window.sum())))


def start_delays(run: Run) -> dict[str, float | None]:
    """Return the time [s] of reception from the start to the first message of each topic; None without messages, and
    without a known start.

    A robot starts with the first mode or target that moves it. Its state topics start with the first message of either
    if that is earlier: one program publishes both.
    """
    moving = [name not in AT_REST for name in run.mode.modes]
    mode = run.mode.received[moving].min(initial=np.inf)
    moved = min(mode, run.targets.received[np.isfinite(run.targets.position).all(axis=1)].min(initial=np.inf))
    states = min(moved, run.joints.received.min(initial=np.inf), run.imu.received.min(initial=np.inf))
    starts = {JOINT_STATES: states, IMU: states, ODOM: moved, JOINT_TRAJECTORY: mode}
    records: tuple[Any, ...] = (run.joints, run.imu, run.odometry, run.targets)
    delays: dict[str, float | None] = {}
    for (topic, start), record in zip(starts.items(), records, strict=True):
        known = len(record.received) and np.isfinite(start)
        delays[topic.name] = max(float(record.received.min() - start), 0.0) if known else None
    return delays


def timing(run: Run) -> dict[str, Any]:
    """Return rate, gaps, delays and start of each topic, and the latency [s] from the joints' stamp to the target's.

    Delays are unknown if stamps are simulated time.
    """
    records: dict[TopicName, Any] = {JOINT_STATES: run.joints, IMU: run.imu, JOINT_TRAJECTORY: run.targets}
    return {
        "topics": {topic.name: _topic(part.stamp, part.received, run) for topic, part in records.items()},
        "start_delay_s": start_delays(run),
        "state_to_target_s": quantiles(run.steps.target_stamp - run.steps.joints_stamp),
    }


def _topic(stamp: Array, received: Array, run: Run) -> dict[str, Any]:
    if len(stamp) < 2:
        return {"messages": len(stamp), **dict.fromkeys(("rate_hz", "gaps", "largest_gap_s", "out_of_order", "late"))}
    interval = np.diff(stamp)
    delay = np.where(run.simulated_time | (received == stamp), np.nan, received - stamp)  # equal: they have no stamp
    return {
        "messages": len(stamp),
        "rate_hz": (len(stamp) - 1) / float(np.ptp(stamp)) if np.ptp(stamp) > 0 else None,
        "gaps": int((interval > GAP * float(np.median(interval))).sum()),
        "largest_gap_s": float(interval.max()),
        "out_of_order": int((np.diff(stamp[np.argsort(received, kind="stable")]) < 0).sum()),
        "delay_s": quantiles(delay),
        "late": int((delay > LATE).sum()) if np.isfinite(delay).any() else None,
    }
