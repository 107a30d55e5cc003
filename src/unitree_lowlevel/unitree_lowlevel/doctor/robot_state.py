"""Checks of what the robot says about itself: is it this robot, is it whole, and is it calm."""

from __future__ import annotations

import numpy as np

from fcnet_core.robot import JOINT_NAMES, ROBOT_FOLDER, Robot, load_robot
from fcnet_core.rotation import projected_gravity
from unitree_lowlevel.doctor.finding import Finding, failed, ok, warning
from unitree_lowlevel.doctor.recording import Recording
from unitree_lowlevel.safety.joint_position import check_position
from unitree_lowlevel.safety.joint_velocity import check_velocity
from unitree_lowlevel.safety.limits import limits_of
from unitree_lowlevel.safety.motor_temperature import check_temperature
from unitree_lowlevel.safety.trip import Severity
from unitree_lowlevel.wireless_remote import REMOTE_BYTES, decode_remote

GRAVITY = 9.81
_NORM_ERROR = 1.0  # [m/s^2] of an accelerometer at rest
_ANGLE_ERROR = 0.15  # [rad] between the two opinions on where down is
_STILL = 0.1  # [rad/s] of a gyroscope at rest
_CALM = 1.0  # [rad/s] of a joint that nobody moves
_DEAD_ZONE = 0.1  # of a stick


def check_robot_state(recording: Recording, robot: Robot) -> list[Finding]:
    """All of them."""
    return [
        check_tick(recording),
        check_identity(recording),
        check_joint_limits(recording, robot),
        check_joint_order(recording, robot),
        check_joint_speed(recording, robot),
        check_accelerometer(recording),
        check_orientation(recording),
        check_gyroscope(recording),
        check_temperatures(recording, robot),
        check_remote(recording),
    ]


def check_tick(recording: Recording) -> Finding:
    """Whether the robot's time goes on, and how fast."""
    ticks = recording.ticks
    if not np.diff(ticks).any():
        return failed("tick", "the robot's time stands still: its board hangs, switch the robot off and on")
    if recording.counters.restarts:
        return warning("tick", "the robot's board restarted meanwhile: look at its supply")
    return ok("tick", f"advances by {(ticks[-1] - ticks[0]) / recording.duration:.0f} a second")


def check_identity(recording: Recording) -> Finding:
    """Whether one and the same robot answers."""
    identities = sorted({state.identity for state in recording.states})
    if len(identities) > 1:
        return failed("identity", f"two boards answer, {identities[0]} and {identities[1]}: unplug one")
    return ok("identity", f"{identities[0]}")


def check_joint_limits(recording: Recording, robot: Robot) -> Finding:
    """Whether the joints are where this robot's joints can be."""
    position = recording.newest.position
    if (reason := check_position(limits_of(robot), position)) is None:
        return ok("joint limits", f"all joints are inside the limits of the {robot.name}")
    fitting = [other.name for other in _other_robots(robot) if check_position(limits_of(other), position) is None]
    hint = f"; these would be positions of the {' or '.join(fitting)}" if fitting else ""
    return failed("joint limits", f"{reason}{hint}")


def check_joint_order(recording: Recording, robot: Robot) -> Finding:
    """Whether hip, thigh and calf stand in this order: only a calf is always bent.

    Which leg is which no number tells: move one by hand, with --by-hand.
    """
    legs = recording.newest.position.reshape(4, 3)
    lower, upper = robot.lower.reshape(4, 3), robot.upper.reshape(4, 3)
    margin = robot.safety.position_margin
    fits = [
        bool(((lower[:, 2] - margin <= legs[:, joint]) & (legs[:, joint] <= upper[:, 2] + margin)).all())
        for joint in range(3)
    ]
    if fits == [False, False, True]:
        return ok("joint order", "hip, thigh, calf; to see which leg is which, move one by hand with --by-hand 30")
    if fits[2]:
        return warning("joint order", "not told apart by these positions: move a leg by hand with --by-hand 30")
    return failed(
        "joint order", "the third joint of each leg is not where a calf can be: the order is not hip, thigh, calf"
    )


def check_joint_speed(recording: Recording, robot: Robot) -> Finding:
    """Whether the joints are at rest and say so."""
    fastest = np.max(np.abs([state.velocity for state in recording.states]), axis=0)
    if (reason := check_velocity(limits_of(robot), fastest)) is not None:
        return failed("joint speed", f"{reason}; where no joint moves, its encoder is broken")
    joint = int(np.argmax(fastest))
    if fastest[joint] > _CALM:
        return warning("joint speed", f"{JOINT_NAMES[joint]} moves with {fastest[joint]:.1f} rad/s: let the robot rest")
    return ok("joint speed", f"at most {fastest[joint]:.2f} rad/s")


def check_accelerometer(recording: Recording) -> Finding:
    """Whether a resting accelerometer feels gravity and nothing else."""
    norm = float(np.median(np.linalg.norm([state.linear_acceleration for state in recording.states], axis=1)))
    if abs(norm - GRAVITY) > _NORM_ERROR:
        return failed(
            "accelerometer", f"feels {norm:.2f} instead of {GRAVITY} m/s^2: let the robot rest, or its IMU is broken"
        )
    return ok("accelerometer", f"feels {norm:.2f} m/s^2")


def check_orientation(recording: Recording) -> Finding:
    """Whether the quaternion is one, and whether it and the accelerometer agree on where down is."""
    state = recording.newest
    norm = float(np.linalg.norm(state.orientation))
    if abs(norm - 1.0) > 0.02:
        return failed(
            "orientation", f"the quaternion has length {norm:.3f} instead of 1: the IMU is not ready, wait, try again"
        )
    felt = -state.linear_acceleration / max(float(np.linalg.norm(state.linear_acceleration)), 1e-6)
    angle = float(np.arccos(np.clip(projected_gravity(state.orientation) @ felt, -1.0, 1.0)))
    if angle > _ANGLE_ERROR:
        return failed(
            "orientation",
            f"quaternion and accelerometer differ by {np.degrees(angle):.0f} degrees on where down is: "
            "let the robot rest; if it stays, the IMU's axes or its quaternion are not as this suite takes them",
        )
    tilt = float(np.arccos(np.clip(-projected_gravity(state.orientation)[2], -1.0, 1.0)))
    return ok(
        "orientation", f"tilted by {np.degrees(tilt):.0f} degrees, accelerometer agrees within {np.degrees(angle):.1f}"
    )


def check_gyroscope(recording: Recording) -> Finding:
    """Whether a resting gyroscope says so."""
    rate = float(np.max(np.abs(np.median([state.angular_velocity for state in recording.states], axis=0))))
    if rate > _STILL:
        return warning("gyroscope", f"turns with {rate:.2f} rad/s: let the robot rest, or its gyroscope drifts")
    return ok("gyroscope", f"at most {rate:.3f} rad/s")


def check_temperatures(recording: Recording, robot: Robot) -> Finding:
    """Whether the motors are cool enough to begin."""
    state = recording.newest
    hot = check_temperature(limits_of(robot), state.temperature)
    if hot is not None:
        return (warning if hot.severity is Severity.WARNING else failed)("temperature", hot.reason)
    if not state.temperature.any():
        return warning("temperature", "every motor says 0 C: the boards behind it may be without power")
    return ok("temperature", f"motors {state.temperature.min():.0f} to {state.temperature.max():.0f} C")


def check_remote(recording: Recording) -> Finding:
    """Whether the remote is at rest."""
    raw = recording.newest.remote
    remote = decode_remote(raw)
    axes = {name: value for name in ("lx", "ly", "rx", "ry") if abs(value := getattr(remote, name)) > _DEAD_ZONE}
    if raw == bytes(REMOTE_BYTES):
        return warning("remote", "says nothing: switch it on, its buttons are an emergency stop")
    if remote.buttons or axes:
        touched = ", ".join([*sorted(remote.buttons), *(f"{name} {value:+.2f}" for name, value in axes.items())])
        return warning("remote", f"is touched ({touched}): let go of it before starting")
    return ok("remote", "is heard, and nobody touches it")


def _other_robots(robot: Robot) -> list[Robot]:
    return [load_robot(file.stem) for file in sorted(ROBOT_FOLDER.glob("*.yaml")) if file.stem != robot.name]
