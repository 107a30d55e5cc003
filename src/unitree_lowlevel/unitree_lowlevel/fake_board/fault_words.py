"""The faults of a fake board in words, as they are typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields, replace
from typing import Any

from unitree_lowlevel.fake_board.board_faults import NONE, OF_A_JOINT, BoardFaults
from unitree_lowlevel.wireless_remote import BUTTONS, RemoteState

STICKS = ("lx", "ly", "rx", "ry", "L2")
ON_OFF = {"on": True, "off": False}


def fault_fields() -> list[Field[Any]]:
    """The faults that one word or number switches: all but the remote, which has words of its own."""
    return [one for one in fields(BoardFaults) if one.name != "remote"]


def changed_faults(faults: BoardFaults, words: list[str]) -> BoardFaults:
    """`faults` after one command such as `loss 0.1`, `silence on`, `tilt 1.2 0`, `press L2 B`, `stick lx 0.5`,
    `release` or `clear`. Raises ValueError with a sentence.
    """
    verb, *values = words
    if verb == "clear":
        return replace(NONE, remote=faults.remote)
    if verb in ("press", "release", "stick"):
        return replace(faults, remote=_REMOTE[verb](faults, values))
    for fault in fault_fields():
        if fault.name == verb:
            return replace(faults, **{verb: fault_value(fault, values)})
    raise ValueError(f"there is no fault {verb}; `help` shows all")


def fault_value(fault: Field[Any], words: list[str]) -> Any:
    """The value of one fault, read from words. Raises ValueError with a sentence."""
    if words == ["off"] and not isinstance(fault.default, bool):
        return fault.default
    read, wanted = _reader(fault)
    try:
        return read(words)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{fault.name} {' '.join(words)} is not understood; {fault.name} takes {wanted}") from error


def _reader(fault: Field[Any]) -> tuple[Callable[[list[str]], Any], str]:
    if isinstance(fault.default, bool):
        return _switch, "on or off"
    if fault.name == "tilt":
        return _two_numbers, "roll and pitch in radians, or off"
    if fault.name in OF_A_JOINT:
        return _one_word, "a joint's name, or off"
    return _number, "a number, or off"


def _switch(words: list[str]) -> bool:
    (word,) = words
    return ON_OFF[word]


def _number(words: list[str]) -> float:
    (word,) = words
    return float(word)


def _two_numbers(words: list[str]) -> tuple[float, float]:
    roll, pitch = words
    return float(roll), float(pitch)


def _one_word(words: list[str]) -> str:
    (word,) = words
    return word


def _press(faults: BoardFaults, buttons: list[str]) -> RemoteState:
    if unknown := sorted(set(buttons) - set(BUTTONS)):
        raise ValueError(f"the remote has no button {unknown[0]}; choose from {' '.join(BUTTONS)}")
    return replace(faults.remote, buttons=faults.remote.buttons | set(buttons))


def _release(faults: BoardFaults, buttons: list[str]) -> RemoteState:
    left = faults.remote.buttons - set(buttons) if buttons else frozenset()
    return replace(faults.remote, buttons=frozenset(left))


def _stick(faults: BoardFaults, words: list[str]) -> RemoteState:
    try:
        name, word = words
        place = float(word)
    except ValueError:
        name, place = "", 0.0
    if name not in STICKS or not -1.0 <= place <= 1.0:
        said = " ".join(["stick", *words])
        raise ValueError(f"{said} is not understood; stick takes one of {' '.join(STICKS)} and a number from -1 to 1")
    moved: dict[str, Any] = {name: place}
    return replace(faults.remote, **moved)


_REMOTE = {"press": _press, "release": _release, "stick": _stick}
