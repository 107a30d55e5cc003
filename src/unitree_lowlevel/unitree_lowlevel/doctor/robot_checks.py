"""Checks of a robot's states, recorded for a few seconds with the motors off."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import Robot, load_robot, robot_files
from fcnet_core.rotation import GRAVITY, projected_gravity, tilt_of_gravity
from unitree_lowlevel.codec import (
    GENERATIONS,
    JOINTS,
    MOTORS,
    OFF,
    PERIOD,
    POSITION_STOP,
    REMOTE_BYTES,
    Generation,
    LowCommand,
    LowState,
    decode_remote,
)
from unitree_lowlevel.doctor.host_checks import Outcome, failed, ok, warning
from unitree_lowlevel.network import Address
from unitree_lowlevel.safety.checks import RobotChecks, Severity
from unitree_lowlevel.safety.link import PacketLoss
from unitree_lowlevel.transport import Transport, TransportCounters

_POLL = 0.0003  # [s] between two receptions
_LATEST = 0.1  # [s] in which the answer to the last command arrives
_PAUSE = 0.2  # [s] without a command after that, to see whether states continue
_MOVED = 0.15  # [rad] since the joint was last named
_ZERO = np.zeros(MOTORS)
_STOP = np.full(MOTORS, POSITION_STOP)
MOTORS_OFF = LowCommand(np.full(MOTORS, OFF, dtype=np.uint8), _STOP, _ZERO, _ZERO, _ZERO, _ZERO)
_GOOD_RATE, _LOWEST_RATE = 0.9 / PERIOD, 0.4 / PERIOD  # [Hz] of states; the lower one suffices for a policy at 50 Hz
_BROKEN_FRACTION = 0.05  # of the packets
_LENGTH_ERROR = 0.02  # of a unit quaternion
_NORM_ERROR = 1.0  # [m/s^2] of an accelerometer at rest
_ANGLE_ERROR = 0.15  # [rad] between the vertical of quaternion and accelerometer
_STILL = 0.1  # [rad/s] of a gyroscope at rest
_CALM = 1.0  # [rad/s] of a joint at rest
_DEAD_ZONE = 0.1  # of a stick
_USE_CABLE = "use the cable, not Wi-Fi, and check this computer's load"
_REJECTIONS = {
    "checksum": "with a wrong checksum: check cable, connectors and generation",
    "generation": "of the other generation: if there are also valid ones, two robots are on this network, unplug one",
    "size": "of an unknown size: this port does not belong to a robot's low level",
    "head": "with a wrong head: this port does not belong to a robot's low level",
    "not_finite": "with non-finite values: a board or a sensor is broken, do not start this robot",
}


@dataclass(frozen=True)
class Recording:
    """Data received within `duration` [s] of commands every 2 ms.

    states: the newest valid one of each reception. lateness: of every command (m,) [s], caused by this computer.
    runs_free: whether the board sends states without commands. counters: of the transport, at the end of the commands.
    loss: fraction of lost states in the last second, None if the recording is too short.
    """

    duration: float
    states: list[LowState]
    lateness: Array
    runs_free: bool
    counters: TransportCounters
    loss: float | None


def record(transport: Transport, seconds: float) -> Recording:
    """Exchange packets with the robot through an open transport; takes up to 0.3 s more than `seconds`."""
    states: list[LowState] = []
    lateness: list[float] = []
    loss = PacketLoss(PERIOD)
    start = due = time.monotonic()
    while (now := time.monotonic()) < start + seconds:
        if now >= due:
            lateness.append(now - due)
            transport.send(MOTORS_OFF)
            due = max(due + PERIOD, now)
            if states:
                loss.update(now, states[-1].tick, transport.counters)
        if (reception := transport.receive()) is not None:
            states.append(reception.state)
        time.sleep(_POLL)
    duration = time.monotonic() - start
    counters = replace(transport.counters, rejected=dict(transport.counters.rejected))
    for pause in (_LATEST, _PAUSE):
        before = transport.counters.received
        time.sleep(pause)
        transport.receive()
    runs_free = transport.counters.received > before
    loss.estimate(runs_free)
    return Recording(duration, states, np.array(lateness), runs_free, counters, loss.share)


def watch_joints(transport: Transport, seconds: float) -> None:
    """Print the name of every joint that a person moves within `seconds`, motors off."""
    print(f"Move one joint after the other by hand for {seconds:g} s; its name and angle appear here.", flush=True)
    resting: Array | None = None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        transport.send(MOTORS_OFF)
        time.sleep(PERIOD)
        if (reception := transport.receive()) is None:
            continue
        position = reception.state.position
        resting = position.copy() if resting is None else resting
        joint = int(np.argmax(np.abs(position - resting)))
        if abs(position[joint] - resting[joint]) > _MOVED:
            resting[joint] = position[joint]
            print(f"  {JOINTS[joint]:<16} {position[joint]:+.2f} rad", flush=True)


def check_robot(
    recording: Recording, robot: Robot, target: Address, generation: Generation
) -> Iterator[tuple[str, Outcome]]:
    """Yield name and outcome of every check. Without states, checks of rates and sensors are omitted."""
    yield "answers", _check_answers(recording, target, generation)
    yield "integrity", _check_rejected(recording)
    yield "sources", _check_sources(recording)
    if recording.states:
        yield "rate", _check_rate(recording)
        yield "loss", _check_loss(recording, robot)
        yield "tick", _check_tick(recording)
        yield "identity", _check_identity(recording)
        yield "joint limits", _check_joint_limits(recording, robot)
        yield "joint speed", _check_joint_speed(recording, robot)
        yield "imu", _check_imu(recording)
        yield "orientation", check_orientation(recording)
        yield "temperature", _check_temperatures(recording, robot)
        yield "remote", check_remote(recording)


def _check_answers(recording: Recording, target: Address, generation: Generation) -> Outcome:
    counters, host = recording.counters, target[0]
    if counters.received:
        trigger = "by itself" if recording.runs_free else "only in response to commands"
        return ok(f"{counters.received} states in {recording.duration:.1f} s; this board sends {trigger}")
    if counters.rejected.get("generation"):
        other = next(name for name in GENERATIONS if name != generation.name)
        advice = f"if it is the right robot, use --generation {other}"
        return failed(f"{host} uses {other}, not {generation.name}: {advice}")
    if counters.rejected:
        return failed(f"{host} sends only invalid packets, see below")
    if counters.foreign:
        return failed(f"no packet from {host}, but from {_sender(recording)}: is that the robot's address?")
    return failed(
        f"no packet from {host}:{target[1]} in {recording.duration:.1f} s: is the robot on, the cable plugged in, "
        "and its sport mode off (see its manual)?"
    )


def _check_rejected(recording: Recording) -> Outcome:
    rejected = recording.counters.rejected
    if not rejected:
        return ok("every packet of the robot is valid")
    bad, total = sum(rejected.values()), recording.counters.received + sum(rejected.values())
    found = "; ".join(f"{number} of {total} packets {_REJECTIONS.get(kind, kind)}" for kind, number in rejected.items())
    return (failed if bad > _BROKEN_FRACTION * total else warning)(found)


def _check_sources(recording: Recording) -> Outcome:
    if not (number := recording.counters.foreign):
        return ok("no other program sends to this port")
    return failed(f"{_sender(recording)} also sends to this port ({number} packets): stop that program")


def _check_rate(recording: Recording) -> Outcome:
    rate, sent = recording.counters.received / recording.duration, recording.counters.sent / recording.duration
    found = f"{rate:.0f} states a second for {sent:.0f} commands"
    if rate >= _GOOD_RATE:
        return ok(found)
    if rate >= _LOWEST_RATE:
        return warning(f"{found}, expected {1 / PERIOD:.0f}: {_USE_CABLE}")
    return failed(f"{found}, at least {_LOWEST_RATE:.0f} are needed: {_USE_CABLE}")


def _check_loss(recording: Recording, robot: Robot) -> Outcome:
    counters, loss = recording.counters, recording.loss
    if loss is None:
        return ok("not measured in so short a time")
    found = f"{loss:.1%} of the states are lost, {counters.duplicates} duplicates, {counters.old} overtaken"
    if loss >= robot.safety.max_packet_loss:
        return failed(f"{found}: the bridge would trip; replace the cable, leave Wi-Fi")
    if loss >= robot.safety.packet_loss_warning or counters.old:
        return warning(f"{found}: check cable, connectors and switch")
    return ok(found)


def _check_tick(recording: Recording) -> Outcome:
    ticks = [state.tick for state in recording.states]
    if len(set(ticks)) < 2:
        return failed("the robot's clock has stopped: its board hangs, switch the robot off and on")
    if recording.counters.restarts:
        return warning("the robot's board restarted during the check: check its power supply")
    return ok(f"advances by {(ticks[-1] - ticks[0]) / recording.duration:.0f} a second")


def _check_identity(recording: Recording) -> Outcome:
    identities = sorted({state.identity for state in recording.states})
    if len(identities) > 1:
        return failed(f"two boards respond, {identities[0]} and {identities[1]}: unplug one")
    return ok(f"{identities[0]}")


def _check_joint_limits(recording: Recording, robot: Robot) -> Outcome:
    position = recording.states[-1].position
    if (found := RobotChecks(robot).position(position)) is None:
        return ok(f"all joints are inside the limits of the {robot.name}")
    others = [load_robot(file) for name, file in robot_files().items() if name != robot.name]
    driven = [other for other in others if other.joint_names == JOINTS]
    fitting = [other.name for other in driven if RobotChecks(other).position(position) is None]
    hint = f"; they fit the {' or '.join(fitting)}" if fitting else ""
    return failed(f"{found.reason}{hint}")


def _check_joint_speed(recording: Recording, robot: Robot) -> Outcome:
    fastest = np.max(np.abs([state.velocity for state in recording.states]), axis=0)
    if (found := RobotChecks(robot).velocity(fastest)) is not None:
        return failed(f"{found.reason}; if no joint moves, its encoder is broken")
    joint = int(np.argmax(fastest))
    if fastest[joint] > _CALM:
        return warning(f"{JOINTS[joint]} moves at {fastest[joint]:.1f} rad/s: keep the robot still")
    return ok(f"at most {fastest[joint]:.2f} rad/s")


def _check_imu(recording: Recording) -> Outcome:
    norm = float(np.median(np.linalg.norm([state.linear_acceleration for state in recording.states], axis=1)))
    rate = float(np.max(np.abs(np.median([state.angular_velocity for state in recording.states], axis=0))))
    found = f"measures {norm:.2f} m/s^2 and {rate:.3f} rad/s"
    if abs(norm - GRAVITY) > _NORM_ERROR:
        return failed(f"{found} instead of {GRAVITY} m/s^2: keep the robot still, or its IMU is broken")
    if rate > _STILL:
        return warning(f"{found}: keep the robot still, or its gyroscope drifts")
    return ok(found)


def check_orientation(recording: Recording) -> Outcome:
    """Check that the quaternion has length 1, and that its vertical agrees with the accelerometer."""
    state = recording.states[-1]
    norm = float(np.linalg.norm(state.orientation))
    if abs(norm - 1.0) > _LENGTH_ERROR:
        return failed(f"the quaternion has length {norm:.3f} instead of 1: the IMU is not ready, wait and try again")
    down = projected_gravity(state.orientation)
    measured = -state.linear_acceleration / max(float(np.linalg.norm(state.linear_acceleration)), 1e-6)
    angle = float(np.arccos(np.clip(down @ measured, -1.0, 1.0)))
    if angle > _ANGLE_ERROR:
        return failed(
            f"the vertical of quaternion and accelerometer differ by {np.degrees(angle):.0f} degrees: keep the robot "
            "still; if the difference remains, the IMU's axes or the order of its quaternion are not as expected"
        )
    tilt = np.degrees(tilt_of_gravity(down))
    return ok(f"tilted by {tilt:.0f} degrees, accelerometer agrees within {np.degrees(angle):.1f}")


def _check_temperatures(recording: Recording, robot: Robot) -> Outcome:
    temperature = recording.states[-1].temperature
    if (hot := RobotChecks(robot).temperature(temperature)) is not None:
        return (warning if hot.severity is Severity.WARNING else failed)(hot.reason)
    if not temperature.any():
        return warning("every motor reports 0 C: the motor drives may be without power")
    return ok(f"motors {temperature.min():.0f} to {temperature.max():.0f} C")


def check_remote(recording: Recording) -> Outcome:
    """Check that the remote is on and at rest."""
    raw = recording.states[-1].remote
    remote = decode_remote(raw)
    axes = {name: value for name in ("lx", "ly", "rx", "ry") if abs(value := getattr(remote, name)) > _DEAD_ZONE}
    if raw == bytes(REMOTE_BYTES):
        return warning("is off: switch it on, its buttons are an emergency stop")
    if remote.buttons or axes:
        used = ", ".join([*sorted(remote.buttons), *(f"{name} {value:+.2f}" for name, value in axes.items())])
        return warning(f"is in use ({used}): release it before starting")
    return ok("is received, no button or stick is used")


def _sender(recording: Recording) -> str:
    return "{}:{}".format(*recording.counters.last_foreign)
