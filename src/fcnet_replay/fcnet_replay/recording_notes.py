"""Notes of the recorder in a bag's metadata.yaml (custom_data): robot, policy and parameters of the run."""

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
    """robot: name; model: file of the policy; model_fingerprint: of that policy; git_revision: of the suite; namespace:
    of the robot; parameters: of the controller. Empty if unknown.
    """

    robot: str = ""
    model: str = ""
    model_fingerprint: str = ""
    git_revision: str = ""
    namespace: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    def custom_data(self) -> dict[str, str]:
        """Return the entries for `ros2 bag record --custom-data`."""
        texts = {f"{PREFIX}{name}": getattr(self, name) for name in TEXTS}
        return {name: text for name, text in texts.items() if text} | {PARAMETERS: json.dumps(self.parameters)}

    @property
    def control_rate(self) -> float | None:
        """Rate of the controller [Hz]; None if unknown."""
        return self._number("control_rate", 1.0, 10_000.0)

    @property
    def command_timeout(self) -> float:
        """Age [s] above which a velocity command was stale."""
        return self._number("cmd_vel_timeout", 0.01, 60.0) or VELOCITY_TIMEOUT

    @property
    def style(self) -> tuple[float, float, float]:
        """Offsets of stance width (as a fraction), foot clearance [m] and stride frequency [Hz]."""
        width, clearance, frequency = (self._number(name, -10.0, 10.0) or 0.0 for name in STYLE_PARAMETERS.values())
        return width, clearance, frequency

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints in the recorded robot's file; empty if there is none."""
        try:
            return load_robot(self.robot).joint_names
        except FcnetError:
            return ()

    def recorded_model(self) -> PolicyModel | None:
        """Return the recorded policy; None if its file no longer holds it."""
        try:
            model = load_model(self.model) if self.model else None
        except FcnetError:
            return None
        return model if model and model.fingerprint == self.model_fingerprint else None

    def _number(self, name: str, lowest: float, highest: float) -> float | None:
        """Return a parameter if it is a number in this range."""
        value = self.parameters.get(name)
        return float(value) if isinstance(value, (int, float)) and lowest <= value <= highest else None


def read_notes(custom: Mapping[str, str]) -> RecordingNotes:
    """Return the notes in a bag's custom data; missing, unreadable and impossible ones are empty."""

    def finite(text: str) -> float | None:
        return value if math.isfinite(value := float(text)) else None  # JSON cannot hold others

    try:
        parameters = json.loads(custom.get(PARAMETERS, "{}"), parse_constant=finite, parse_float=finite)
    except (ValueError, RecursionError):
        parameters = {}
    texts = {name: custom.get(f"{PREFIX}{name}", "") for name in TEXTS}
    if not texts["robot"].isidentifier():  # a path would make a bag choose which of this computer's files is read
        texts["robot"] = ""
    return RecordingNotes(**texts, parameters=parameters if isinstance(parameters, dict) else {})


def robot_of(recording: str | Path, notes: RecordingNotes, given: str | None = "", otherwise: str = "") -> Robot:
    """Return the robot of a recording: `given` by name or file, else noted by the recorder, else `otherwise`.

    Raises ReplayError if none is named, or if the given robot differs from the noted one.
    """
    name = given or notes.robot or otherwise
    if not name:
        how = "name it, such as --robot aliengo, or robot:=aliengo at a launch"
        raise ReplayError(f"the recording {recording} does not name its robot; {how}")
    robot = load_robot(name)
    if notes.robot not in ("", robot.name):
        raise ReplayError(f"the recording {recording} is of the robot {notes.robot}, not {robot.name}; name that one")
    return robot
