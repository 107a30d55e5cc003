"""Checks every command that reaches a motor board against the rules that hold whatever happens to the bridge."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from board_process import WireLog

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import Robot
from unitree_lowlevel.codec import PERIOD

FLOAT_TOLERANCE = 1e-5  # [rad], single precision on the wire
STEP = 1.0 / 16.0  # [Nms/rad], the coarsest of the wire's gains
LONGEST_GAP = 0.055  # [s] after which stiffness must begin softly
LATE = 0.03  # [s] by which commands of one beginning may come late
MEMORY = 0.04  # [s] by which the state may be old from which a command was made
TORQUE_TOLERANCE = 1.02


@dataclass
class WireOracle:
    """Checks the log of a robot's board, piece by piece.

    slack [s]: what a busy computer may add to a deadline. true_states: the bridge gets the board's states unchanged, so
    that the torques it asks for can be checked.
    """

    robot: Robot
    slack: float = 0.1
    true_states: bool = True
    longest_gap: float = 0.0
    commands: int = 0
    _last: tuple[float, Array, Mask] | None = None
    _began: float = -np.inf  # when the joints became stiff

    def check(self, log: WireLog) -> list[str]:
        """Return the violations in one piece of the log: each broken rule, and by how much."""
        found = [f"undecodable: {kind}, {count} times" for kind, count in log.bad.items() if count]
        if not len(log.arrival):
            return found
        self.commands += len(log.arrival)
        checks = (self._bounds(log), self._changes(log), self._torques(log))
        return found + [violation for check in checks for violation in check]

    def _bounds(self, log: WireLog) -> Iterator[str]:
        safety = self.robot.safety
        outside = np.fmax(self.robot.lower - log.position, log.position - self.robot.upper)
        yield from _worst("outside limits", "rad", np.where(log.stiff, outside - FLOAT_TOLERANCE, -1.0))
        yield from _worst("stiffness above its limit", "Nm/rad", log.stiffness - safety.max_kp)
        yield from _worst("damping above its limit", "Nms/rad", log.damping - safety.max_kd)
        yield from _worst("feed-forward torque", "Nm", np.abs(log.torque))
        yield from _worst("stiff without damping", "Nm/rad", np.where(log.damping < STEP, log.stiffness, 0.0))

    def _changes(self, log: WireLog) -> Iterator[str]:
        """Steps of stiff joints, and how stiffness begins after a pause."""
        safety, arrival, stiffness = self.robot.safety, log.arrival, log.largest_stiffness
        last = self._last or (arrival[0] - PERIOD, log.position[0], log.stiff[0])  # what was before is not known
        times = np.concatenate([[last[0]], arrival])
        positions, stiff = np.vstack([last[1], log.position]), np.vstack([last[2], log.stiff])
        gap = np.diff(times)
        self.longest_gap = max(self.longest_gap, float(gap[np.isfinite(gap)].max(initial=0.0)))
        longest = LONGEST_GAP + self.slack / 2
        both = stiff[1:] & stiff[:-1] & (gap < longest)[:, None]
        allowed = safety.max_target_rate * np.clip(gap, PERIOD, longest)[:, None] + FLOAT_TOLERANCE
        step = np.abs(np.diff(positions, axis=0))
        yield from _worst("position rate above its limit", "rad", np.where(both, step - allowed, -1.0))
        is_stiff = np.asarray(stiff.any(axis=1))
        begins = is_stiff[1:] & (~is_stiff[:-1] | (gap > longest))
        began = np.maximum.accumulate(np.concatenate([[self._began], np.where(begins, arrival, -np.inf)]))[1:]
        share = np.minimum((arrival - began + LATE + self.slack / 2) / safety.soft_start, 1.0)
        excess = np.where(is_stiff[1:], stiffness - share * safety.max_kp, 0.0)
        yield from _worst("no soft start", "Nm/rad", excess[:, None])
        self._last, self._began = (float(arrival[-1]), log.position[-1], log.stiff[-1]), float(began[-1])

    def _torques(self, log: WireLog) -> Iterator[str]:
        """Requested torque, damping included, for the most favourable of the states that the bridge may know."""
        if not len(log.sensed) or not self.true_states:
            return
        until = np.searchsorted(log.sensed, log.arrival)
        least = np.full(log.position.shape, np.inf)
        for back in range(round(MEMORY / PERIOD)):
            place = until - 1 - back
            known, place = place >= 0, np.maximum(place, 0)
            position, velocity = log.sensed_position[place], log.sensed_velocity[place]
            damped = np.abs(log.damping * velocity)
            asked = np.abs(log.stiffness * (log.position - position) - log.damping * velocity)
            excess = asked - np.fmax(damped, TORQUE_TOLERANCE * self.robot.torque_limit + STEP)
            least = np.where(known[:, None], np.fmin(least, excess), -1.0)
        yield from _worst("asked torque above its limit", "Nm", np.where(log.stiff, least, -1.0))


def _worst(name: str, unit: str, excess: Array) -> Iterator[str]:
    """Yield the violation of a rule, if the excess (n, joints or 1) of any command is above 0."""
    rows = excess.max(axis=1, initial=0.0)
    if wrong := int((rows > 1e-9).sum()):
        yield f"{name}: by {rows.max():.3g} {unit} in {wrong} of {len(rows)} commands"
