"""What the keys of a keyboard mean."""

from __future__ import annotations

from dataclasses import dataclass

from fcnet_core.joystick_map import POSE, VELOCITY
from fcnet_core.mode_request import Request
from fcnet_core.strict_entries import StrictEntries, words

NAMED_KEYS = ("space", "escape", "up", "down", "left", "right")


@dataclass(frozen=True)
class KeyStep:
    """Keys that lower and raise a setpoint field, and by how much (SI units)."""

    lower: tuple[str, ...]
    higher: tuple[str, ...]
    size: float


@dataclass(frozen=True)
class KeyboardMap:
    """Meanings of keys: a lower-case character, or a name from NAMED_KEYS."""

    steps: dict[str, KeyStep]
    halt: tuple[str, ...]
    level: tuple[str, ...]
    requests: dict[Request, tuple[str, ...]]

    @property
    def meanings(self) -> list[tuple[str, str]]:
        """Every key with what it means."""
        lists = [
            *((f"lower {field}", step.lower) for field, step in self.steps.items()),
            *((f"raise {field}", step.higher) for field, step in self.steps.items()),
            ("halt", self.halt),
            ("level", self.level),
            *((request.value, keys) for request, keys in self.requests.items()),
        ]
        return [(key, meaning) for meaning, keys in lists for key in keys]


def parse_keyboard(entries: StrictEntries) -> KeyboardMap:
    """Read the entry `keyboard`. Raises ValueError with a phrase that says what is wrong."""
    steps, requests = entries.section("steps"), entries.section("requests")
    keyboard = KeyboardMap(
        steps={field: _step(f"{steps.where}.{field}", steps.take(field)) for field in (*VELOCITY, *POSE)},
        halt=entries.words("halt"),
        level=entries.words("level"),
        requests={request: requests.words(request.value) for request in Request},
    )
    for section in (steps, requests, entries):
        section.finish()
    _check(entries.where, keyboard)
    return keyboard


def _step(where: str, value: object) -> KeyStep:
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], (int, float)) or not value[2] > 0:
        raise ValueError(f"{where} must be keys that lower, keys that raise and a positive step, not {value!r}")
    return KeyStep(words(where, value[0]), words(where, value[1]), float(value[2]))


def _check(where: str, keyboard: KeyboardMap) -> None:
    found: dict[str, str] = {}
    for key, meaning in keyboard.meanings:
        if key not in NAMED_KEYS and (len(key) != 1 or key != key.lower()):
            raise ValueError(
                f"{where} names the key {key!r} for {meaning}; a key is a lower-case character or one of "
                f"{', '.join(NAMED_KEYS)}"
            )
        if key in found:
            raise ValueError(f"{where} lets the key {key!r} {found[key]} and {meaning}; give each a key of its own")
        found[key] = meaning
