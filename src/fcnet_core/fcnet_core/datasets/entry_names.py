"""A name for every entry of observations and actions, for people who read about one."""

from __future__ import annotations

from fcnet_core.command import COMMAND_SIZE
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS

COMMAND_NAMES = (*SETPOINT_FIELDS[:8], "phase_sine", "phase_cosine", "walk", SETPOINT_FIELDS[8])
_PARTS = {
    "projected_gravity": tuple("xyz"),
    "angular_velocity": tuple("xyz"),
    "command": (*COMMAND_NAMES, *(f"unused_{index}" for index in range(len(COMMAND_NAMES), COMMAND_SIZE))),
}
OBSERVATION_NAMES = tuple(f"{field}.{part}" for field in LAYOUT for part in _PARTS.get(field, JOINT_NAMES))
ACTION_NAMES = tuple(f"action.{joint}" for joint in JOINT_NAMES)
