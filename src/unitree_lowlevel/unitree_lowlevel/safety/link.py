"""Checks of the link to a robot: age of the states, other packets, packet loss, and the signal of the remote."""

import math
from collections import deque

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import Safety
from unitree_lowlevel.codec import JOINTS, MOTORS, REMOTE_BYTES, STICKS, LowState, RemoteState, decode_remote
from unitree_lowlevel.codec import PERIOD as BOARD_PERIOD
from unitree_lowlevel.safety.checks import Finding, Severity
from unitree_lowlevel.transport import Reception, TransportCounters

LINK_MEMORY = 1.0  # [s] for which an event of the link remains a finding
LOSS_WINDOW = 1.0  # [s] over which packet loss is estimated
LOSS_SAMPLES = 10  # in this window
FIRST_LOSS = 0.5  # [s] before the first estimate
RELEASED, DEFLECTED, FULL = 0.1, 0.3, 0.99  # stick deflection: max. at rest; min. that rules out a release; end stop
OLD_SHARE = 0.3  # fraction of states with an early tick from which they are a finding
OLD_TIME = 0.05  # [s] after the last early tick in which it explains missing states
FAST_CLOCK = 1.5  # states due by the board's clock, per state due by this computer's, from which its tick has jumped
LOOK = 0.02  # [s] between two looks for sensors that do not change
FROZEN_MOTION = 0.1  # [rad] of a target during which the position of its joint must change
# Of the values of all sensors: the parts of the IMU; torques, positions and velocities; velocities and gyro.
_IMU_PARTS = {"orientation": slice(0, 4), "accelerometer": slice(4, 7), "gyro": slice(43, 46)}
_JOINTS, _RATES = slice(7, 7 + 3 * MOTORS), slice(31, 46)
_TICKS = (1.0, 2.0, 2000.0)  # ticks per 2 ms state if the tick counts states, milliseconds or microseconds
# Events of the link that warn: name and reason, in which the address of the latest foreign sender may be.
_WARNINGS = {
    "foreign": ("foreign_packets", "packets from {}:{} are ignored; is another bridge running?"),
    "restarts": (
        "board_restarted",
        "the robot's tick has started again: its board was restarted, or a second one sends",
    ),
    "unsent": ("unsent_commands", "commands cannot be sent; check the cable and the route"),
}
ADVICE = (
    "check that the robot is on, its cable, the parameters network.target and network.port, and the address of this "
    "computer (as 192.168.123.162/24)"
)


class StateWatch:
    """Keeps the newest valid state and checks its age.

    timeout: maximum age [s] of the newest state with a new tick. frozen_time: maximum time [s] without a change of
    orientation, gyro or accelerometer (noise alone changes real ones), or of a joint's position while its target moves.
    target: (12,) [rad], None unless following; set by the user. rates (15,): joint velocities and gyro [rad/s].
    """

    def __init__(self, timeout: float, frozen_time: float) -> None:
        self.state: LowState | None = None
        self.target: Array | None = None
        self.rates: Array = np.zeros(MOTORS + 3)
        self._timeout = timeout
        self._frozen_time = frozen_time
        self._received = self._repeated = self._rejected = self._looked = -math.inf  # times
        self._invalid = self._frozen = ""
        self._sensors = np.full(10 + 4 * MOTORS, np.nan)
        self._changed = np.full(len(self._sensors), -np.inf)
        self._follows = False
        self._reference = np.zeros(MOTORS)  # target of each joint when it was last not still
        self._moved = np.zeros(MOTORS, dtype=bool)  # whether the target has moved since

    def update(self, reception: Reception | None) -> bool:
        """Add the received state of this cycle; return whether it is new and valid."""
        if reception is None:
            return False
        state, now = reception.state, reception.received
        joints = (state.torque, state.position, state.velocity)
        imu = (state.orientation, state.linear_acceleration, *joints, state.angular_velocity)
        sensors = np.concatenate((*imu, state.temperature))
        invalid = ""
        if not math.isfinite(sensors.dot(sensors)):  # a third of the time of isfinite and all
            invalid = "a sensor value is not a finite number; restart the robot"
        elif not 0.9 < float(state.orientation @ state.orientation) < 1.1:
            invalid = "the orientation is not a unit quaternion; wait until the IMU has started, or restart the robot"
        if invalid:
            self._rejected, self._invalid = now, invalid
            return False
        if self.state is not None and state.tick == self.state.tick:
            self._repeated = now
            return False
        self.state, self._received, self.rates = state, now, sensors[_RATES]
        if now - self._looked >= LOOK:
            self._looked = now
            self._look(now, sensors)
        return True

    def _look(self, now: float, sensors: Array) -> None:
        np.putmask(self._changed, sensors != self._sensors, now)
        self._sensors, still = sensors, now - self._changed > self._frozen_time
        torque, position, velocity = still[_JOINTS].reshape(3, MOTORS)
        # A blocked joint has no velocity, and its torque changes. The target had moved at the last look already.
        stuck = position & (torque | ~velocity) & self._moved
        frozen = [name for name, part in _IMU_PARTS.items() if still[part].all()]
        frozen += [f"{JOINTS[joint]}, whose target moves," for joint in np.flatnonzero(stuck)]
        self._frozen = " and ".join(frozen)
        if self.target is None:
            self._moved[:] = self._follows = False
            return
        self._reference = np.where(position & self._follows, self._reference, self.target)
        self._moved, self._follows = np.abs(self.target - self._reference) > FROZEN_MOTION, True

    def is_stale(self, now: float) -> bool:
        """Return whether there is no state at time `now` [s], or only one older than the timeout."""
        return self.state is None or now - self._received > self._timeout

    def check(self, now: float, rejection: str | None = None) -> Finding | None:
        """Check the states at time `now` [s]; rejection: why recent packets were rejected."""
        if now - self._rejected <= self._timeout:
            return Finding("invalid_state", self._invalid)
        if self.state is None:
            return Finding("stale_state", f"no state has arrived; {rejection or ADVICE}")
        if self.is_stale(now):
            if now - self._repeated <= self._timeout:
                return Finding("frozen_state", f"the robot's tick stays at {self.state.tick}; restart the robot")
            return Finding("stale_state", f"no state for {now - self._received:.2f} s; {rejection or ADVICE}")
        if self._frozen:
            reason = f"no value of {self._frozen} has changed for {self._frozen_time:g} s; restart the robot"
            return Finding("frozen_state", reason)
        return None


class LinkWatch:
    """Reports rejected and foreign packets and failed sends, each for LINK_MEMORY.

    rejection: why packets of the robot were rejected within LINK_MEMORY; None if no packet was.
    """

    def __init__(self) -> None:
        self.rejection: str | None = None
        self._counts: dict[str, int] = {}
        self._times: dict[str, float] = {}

    def check(self, now: float, counters: TransportCounters) -> list[Finding]:
        """Compare the transport's counters at time `now` [s] with the previous ones; return the recent findings.
        Non-finite values, which the codec rejects, are a fault; others warn.
        """
        others = {"foreign": counters.foreign, "unsent": counters.send_errors, "restarts": counters.restarts}
        counts = {**counters.rejected, **others, "old": counters.old}
        if counts == self._counts and not self._times:
            return []
        times = self._times | {event: now for event, count in counts.items() if count > self._counts.get(event, 0)}
        self._times = {event: time for event, time in times.items() if now - time <= LINK_MEMORY}
        self._counts = counts
        rejected = self._times.keys() & counters.rejected.keys()
        self.rejection = counters.last_rejection if rejected else None
        if now - self._times.get("old", -math.inf) <= OLD_TIME:
            self.rejection = "the ticks of its states do not advance; restart the robot, and look for a second one"
        found: list[Finding] = []
        if "not_finite" in rejected:
            reason = "the robot sends values that are not finite numbers; restart the robot"
            found.append(Finding("not_finite", reason))
        if rejected - {"not_finite"}:
            found.append(Finding("rejected_packets", counters.last_rejection, Severity.WARNING))
        for event, (name, reason) in _WARNINGS.items():
            if event in self._times:
                found.append(Finding(name, reason.format(*counters.last_foreign), Severity.WARNING))
        return found


class PacketLoss:
    """Estimates the fraction of lost states over the last second.

    The advance of the robot's tick gives the number of states that were due. Its unit is undocumented: the nearest
    usual unit is used. If the clock and its usual steps disagree (a simulated robot may be slow), the unit with the
    smaller loss is used. A robot may also send only in response to commands. Then there are at most as many states as
    commands, and packets lost in either direction count. A robot that ever sent clearly more states runs freely. A tick
    much faster than real time has jumped, or counts in another unit: the states due by real time are expected.
    """

    def __init__(self, period: float) -> None:
        self.share: float | None = None
        self._old = self._pace = 0.0  # fraction of states with an early tick; states due by the tick, per real time
        self._period = period
        self._runs_free = False
        self._tick = self._ticks = self._cycles = 0  # newest tick; sum of all steps; cycles
        self._samples: deque[Array] = deque(maxlen=LOSS_SAMPLES + 1)  # time, ticks, states, cycles
        self._steps: deque[int] = deque(maxlen=round(LOSS_WINDOW / period))

    def reset(self) -> None:
        """Start a new window."""
        self._samples.clear()
        self._steps.clear()
        self.share = None

    def update(self, now: float, tick: int, counters: TransportCounters) -> None:
        """Add one more cycle, at time `now` [s], with the tick of the newest state."""
        self._cycles += 1
        if step := (tick - self._tick) % 2**32:
            self._steps.append(step)
            self._tick, self._ticks = tick, self._ticks + step
        interval, samples = LOSS_WINDOW / LOSS_SAMPLES, self._samples
        arrived = counters.received - counters.duplicates
        sample = np.array([now, self._ticks, arrived, self._cycles, counters.old])
        if samples:
            elapsed, advance, *_ = sample - samples[-1]
            if elapsed < interval:
                return
            if advance >= 2**31 or elapsed > 2 * interval:
                self.reset()  # the robot has restarted, or counting was interrupted
        samples.append(sample)
        self.estimate()

    def estimate(self, runs_free: bool = False) -> None:
        """Update `share` from the cycles so far. runs_free: the robot is known to send without commands."""
        if not self._samples:
            return
        elapsed, advance, arrived, commands, old = (self._samples[-1] - self._samples[0]).tolist()
        if elapsed < FIRST_LOSS:
            return
        smallest_usual = sorted(self._steps)[len(self._steps) // 10] if self._steps else 1
        unit = max(_nearest_unit(advance / elapsed * self._period), _nearest_unit(smallest_usual))
        self._runs_free |= runs_free or arrived > 1.1 * commands + 10
        self._old, self._pace = old / max(arrived, 1.0), advance / unit * BOARD_PERIOD / elapsed
        most = math.inf if self._pace < FAST_CLOCK else elapsed / BOARD_PERIOD
        expected = min(advance / unit, most if self._runs_free else min(commands, most))
        self.share = min(1.0, max(0.0, 1.0 - arrived / expected)) if expected > 0 else 0.0

    def check(self, safety: Safety) -> Finding | None:
        """Check the newest estimate against the warning and the trip threshold, then the order of the ticks."""
        if self.share is None:
            return None
        if self.share >= safety.packet_loss_warning:
            severity = Severity.WARNING if self.share < safety.max_packet_loss else Severity.TRIP_IF_FOLLOWING
            reason = f"{100 * self.share:.0f} % of the packets are lost; check cable and switch"
            return Finding("packet_loss", reason, severity)
        if self._old > OLD_SHARE:
            reason = f"{100 * self._old:.0f} % of the states have an early tick; look for a second robot or a loop"
            return Finding("old_states", f"{reason} in the network", Severity.WARNING)
        if self._pace < FAST_CLOCK:
            return None
        reason = f"the robot's tick is {self._pace:.1f} times as fast as time; it has jumped, which is no packet loss"
        return Finding("tick_jump", reason, Severity.WARNING)


def _nearest_unit(step: float) -> float:
    return min(_TICKS, key=lambda ticks: abs(math.log(max(step, 1e-9) / ticks)))


class RemoteWatch:
    """Keeps the state of the wireless remote, and reports a remote that is lost while it drives.

    The 40 bytes of a lost remote are undocumented and have not been observed on any robot. Two signs count as a loss:
    (1) the bytes become zero from one state to the next while a stick was strongly deflected; (2) no byte changes for
    remote_timeout while a stick is deflected, but not at its end stop.
    """

    def __init__(self, timeout: float, severity: Severity) -> None:
        self.state = RemoteState()
        self._timeout, self._severity = timeout, severity
        self._bytes = b""
        self._changed = self._vanished = -math.inf
        self._deflection = 0.0

    def update(self, now: float, remote: bytes) -> None:
        """Add the bytes of a new state at time `now` [s]."""
        if remote == self._bytes:
            return
        if remote == bytes(REMOTE_BYTES) and self._deflection > DEFLECTED:
            self._vanished = now
        self._bytes, self._changed, self.state = remote, now, decode_remote(remote)
        self._deflection = max(abs(getattr(self.state, stick)) for stick in STICKS)

    def check(self, now: float) -> Finding | None:
        """Check the remote at time `now` [s]."""
        if now - self._vanished <= LINK_MEMORY:
            return Finding("remote_lost", "the remote was lost while it drove; is it on and near?", self._severity)
        if RELEASED < self._deflection < FULL and (still := now - self._changed) > self._timeout:
            reason = f"the remote has not changed for {still:.1f} s with a stick deflected; is it on and near?"
            return Finding("remote_lost", reason, self._severity)
        return None
