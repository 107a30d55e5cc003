"""What a recorder notes in a bag's metadata.yaml (custom_data), so that its run can be repeated and judged later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
        rate = self.parameters.get("control_rate")
        return float(rate) if isinstance(rate, (int, float)) and 1.0 <= rate <= 10_000.0 else None


def read_notes(custom: Mapping[str, str]) -> RecordingNotes:
    """The notes among a bag's custom data; what is missing or unreadable stays empty."""
    try:
        parameters = json.loads(custom.get(PARAMETERS, "{}"))
    except (ValueError, RecursionError):
        parameters = {}
    texts = {name: custom.get(f"{PREFIX}{name}", "") for name in TEXTS}
    return RecordingNotes(**texts, parameters=parameters if isinstance(parameters, dict) else {})
