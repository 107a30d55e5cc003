"""The emergency stop of the wireless remote."""

from __future__ import annotations

from collections.abc import Collection

from unitree_lowlevel.safety.trip import Finding, Severity

NAME = "remote_stop"


def check_remote(chords: Collection[frozenset[str]], buttons: frozenset[str]) -> Finding | None:
    """A trip when all buttons of one of the chords are pressed."""
    for chord in chords:
        if chord and chord <= buttons:
            return Finding(NAME, f"{' + '.join(sorted(chord))} is pressed on the remote", Severity.ALWAYS)
    return None
