"""What a recorder notes in a bag's metadata.yaml (custom_data), so that its run can be repeated and evaluated later."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fcnet_core.control.command import VELOCITY_TIMEOUT
from fcnet_core.errors import FcnetError, ReplayError
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.names import STYLE_PARAMETERS
from fcnet_core.robot import Robot, load_robot

PREFIX = "fcnet."
TEXTS = ("robot", "model", "model_fingerprint", "git_revision", "namespace")
PARAMETERS = f"{PREFIX}parameters"


@dataclass(frozen=True)
class RecordingNotes:
    """robot: its name; model: the policy's file; model_fingerprint: of that policy; git_revision: of the suite;
    namespace: of the robot; parameters: the controller's. Empty where they are not known.
    """

    robot: str = ""
    model: str = ""
    model_fingerprint: str = ""
    git_revision: str = ""
    namespace: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    def custom_data(self) -> dict[str, str]:
        """As entries for `ros2 bag record --custom-data`."""
        texts = {f"{PREFIX}{name}": getattr(self, name) for name in TEXTS}
        return {name: text for name, text in texts.items() if text} | {PARAMETERS: json.dumps(self.parameters)}

    @property
    def control_rate(self) -> float | None:
        """Cycles of the controller per second [Hz], if they are known."""
        return self._number("control_rate", 1.0, 10_000.0)

    @property
    def command_timeout(self) -> float:
        """Age [s] from which on a command of velocity counted as none."""
        return self._number("cmd_vel_timeout", 0.01, 60.0) or VELOCITY_TIMEOUT

    @property
    def style(self) -> tuple[float, float, float]:
        """Offsets of stance width (as a fraction), foot clearance [m] and stride frequency [Hz]."""
        width, clearance, frequency = (self._number(name, -10.0, 10.0) or 0.0 for name in STYLE_PARAMETERS.values())
        return width, clearance, frequency

    def recorded_model(self) -> PolicyModel | None:
        """The recorded policy, where its file still holds that one."""
        try:
            model = load_model(self.model) if self.model else None
        except FcnetError:
            return None
        return model if model and model.fingerprint == self.model_fingerprint else None

    def _number(self, name: str, lowest: float, highest: float) -> float | None:
        """A parameter, where it is a number in this range."""
        value = self.parameters.get(name)
        return float(value) if isinstance(value, (int, float)) and lowest <= value <= highest else None


def read_notes(custom: Mapping[str, str]) -> RecordingNotes:
    """The notes among a bag's custom data; what is missing, unreadable or no name of a robot stays empty."""
    try:
        parameters = json.loads(custom.get(PARAMETERS, "{}"), parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        parameters = {}
    texts = {name: custom.get(f"{PREFIX}{name}", "") for name in TEXTS}
    if not texts["robot"].isidentifier():  # a path would make a bag choose which of this computer's files is read
        texts["robot"] = ""
    return RecordingNotes(**texts, parameters=parameters if isinstance(parameters, dict) else {})


def _finite(text: str) -> float | None:
    """A number, None for one that is not finite: a report could not hold it."""
    value = float(text)
    return value if math.isfinite(value) else None


def robot_of(recording: str | Path, notes: RecordingNotes, given: str | None = "", otherwise: str = "") -> Robot:
    """The robot that a recording is of: the one `given` by name or by its file, else the noted one, else `otherwise`.

    Raises ReplayError where none is named, and where another one is given than the recorder has noted: limits and
    gains of another robot would make every figure wrong.
    """
    name = given or notes.robot or otherwise
    if not name:
        raise ReplayError(
            f"the recording {recording} does not say which robot it is of; name it, such as --robot aliengo, or"
            " robot:=aliengo at a launch"
        )
    robot = load_robot(name)
    if notes.robot not in ("", robot.name):
        raise ReplayError(f"the recording {recording} is of the robot {notes.robot}, not {robot.name}; name that one")
    return robot
