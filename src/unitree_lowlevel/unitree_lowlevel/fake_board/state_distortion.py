"""Makes the states of a fake board wrong in the ways of its faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw
from unitree_lowlevel.fake_board.board_faults import BoardFaults
from unitree_lowlevel.low_state import Array, LowState

OUTSIDE = 0.3  # [rad] beyond its upper limit where `outside_limits` puts every calf
CALVES = [2, 5, 8, 11]
SPIKE_JOINT = 4  # FL_thigh_joint
BROKEN_JOINT = 7  # RR_thigh_joint, whose position is not a number


class StateDistortion:
    """Applies the faults that concern one state's content; remembers what it needs to freeze."""

    def __init__(self, robot: Robot, seed: int) -> None:
        self._robot = robot
        self._rng = np.random.default_rng(seed)
        self._frozen_tick: int | None = None
        self._frozen_state: LowState | None = None

    def distort(self, state: LowState, faults: BoardFaults) -> LowState:
        """What the board says in place of `state`."""
        changed = self._wrong_joints(state, faults)
        if faults.tilt is not None:
            changed = _tilted(changed, *faults.tilt)
        if faults.temperature is not None:
            changed = replace(changed, temperature=np.full(12, faults.temperature))
        if faults.other_robot:
            changed = replace(changed, identity=tuple(number + 1 for number in changed.identity))
        return self._frozen(changed, faults)

    def _wrong_joints(self, state: LowState, faults: BoardFaults) -> LowState:
        position, velocity, torque = state.position, state.velocity, state.torque
        if faults.joint_offset:
            position = position + faults.joint_offset
        if faults.outside_limits:
            position = position.copy()
            position[CALVES] = self._robot.upper[CALVES] + OUTSIDE
        if faults.not_finite:
            position = position.copy()
            position[BROKEN_JOINT] = np.nan
        if faults.torque_offset:
            torque = torque + faults.torque_offset
        if faults.power:
            torque = 0.5 * self._robot.torque_limit
            velocity = faults.power / 12 / torque
        if faults.velocity_spike and self._rng.random() < faults.spike_share:
            velocity = velocity.copy()
            velocity[SPIKE_JOINT] += faults.velocity_spike
        return replace(state, position=position, velocity=velocity, torque=torque)

    def _frozen(self, state: LowState, faults: BoardFaults) -> LowState:
        if not faults.frozen_tick:
            self._frozen_tick = None
        elif self._frozen_tick is None:
            self._frozen_tick = state.tick
        if not faults.frozen_state:
            self._frozen_state = None
        elif self._frozen_state is None:
            self._frozen_state = state
        tick = state.tick if self._frozen_tick is None else self._frozen_tick
        return replace(self._frozen_state or state, tick=tick)


def foreign_state(state: LowState) -> LowState:
    """A plausible state that another sender might send: other joint positions, and later than the board's own."""
    return replace(state, position=state.position + 0.1, tick=(state.tick + 1000) % 2**32)


def _tilted(state: LowState, roll: float, pitch: float) -> LowState:
    orientation = _product(_quaternion(roll, pitch), state.orientation)
    felt = matrix_from_xyzw(orientation).T @ matrix_from_xyzw(state.orientation) @ state.linear_acceleration
    return replace(state, orientation=orientation, linear_acceleration=felt)


def _quaternion(roll: float, pitch: float) -> Array:
    half_roll, half_pitch = 0.5 * roll, 0.5 * pitch
    about_y = np.array([0.0, np.sin(half_pitch), 0.0, np.cos(half_pitch)])
    return _product(about_y, np.array([np.sin(half_roll), 0.0, 0.0, np.cos(half_roll)]))


def _product(left: Array, right: Array) -> Array:
    """The rotation `right` followed by `left`, quaternions (4,) x, y, z, w."""
    vector = left[3] * right[:3] + right[3] * left[:3] + np.cross(left[:3], right[:3])
    return np.append(vector, left[3] * right[3] - left[:3] @ right[:3])
