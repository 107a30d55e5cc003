"""The entries of a data set's arrays: their names, and the terms of the interface to which they belong."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fcnet_core.arrays import Mask
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Manifest, Shard, velocity_manifest
from fcnet_core.observation import PolicyInterface, velocity_interface
from fcnet_core.observation.interface import SETPOINT_TERMS
from fcnet_core.observation.terms import Clock, Command, Constant, JointPosition, JointVelocity, LastAction, Term
from fcnet_core.robot import load_robot

OBSERVATION = "observation"


def interface_of(manifest: Manifest) -> PolicyInterface | None:
    """Return the interface of a data set: velocity tracking if its arrays are those of it; None if it is unknown."""
    try:
        robot = load_robot(manifest.robot)
    except FcnetError:
        return None
    own = velocity_manifest(robot, manifest.control_rate)
    return velocity_interface(robot, manifest.control_rate) if own.arrays == manifest.arrays else None


def terms_of(interface: PolicyInterface) -> Iterator[tuple[slice, Term]]:
    """Yield the columns and the term of each block of the observation."""
    start = 0
    for _, term in interface.blocks(interface.inputs[OBSERVATION]):
        yield slice(start, start := start + interface.size(term)), term


def episode_starts(shard: Shard) -> Mask:
    """Return the starts of episodes (S, T); every sequence starts one."""
    first = shard.first.copy()
    first[:, 0] = True
    return first


def entry_names(manifest: Manifest, name: str, interface: PolicyInterface | None) -> tuple[str, ...]:
    """Return a name for each entry of an array: part.joint, part.setpoint, part.index, or the array's own name for a
    number.
    """
    spec = manifest.arrays[name]
    if not spec.shape:
        return (name,)
    if interface and name == OBSERVATION:
        return tuple(entry for columns, term in terms_of(interface) for entry in _names(interface, term, columns))
    if interface and name == "action":
        return tuple(f"action.{joint}" for joint in interface.joints or range(interface.values))
    parts = spec.parts or {name: prod(spec.shape)}
    return tuple(f"{part}.{entry}" for part, size in parts.items() for entry in range(size))


def _names(interface: PolicyInterface, term: Term, columns: slice) -> Iterator[str]:
    size = interface.size(term)
    entries: tuple[str | int, ...] = tuple("xyz") if size == term.SIZE == 3 else tuple(range(size))
    if isinstance(term, (JointPosition, JointVelocity, LastAction)) and size == len(interface.joints):
        entries = interface.joints
    elif isinstance(term, Command):
        entries = term.fields
    elif isinstance(term, Clock) and term.form == "gait":
        entries = ("phase_sine", "phase_cosine", "walk")
    elif isinstance(term, Constant):
        entries = tuple(f"constant_{index}" for index in range(columns.start, columns.stop))
    part = "command" if isinstance(term, SETPOINT_TERMS) else term.part
    yield from (f"{part}.{entry}" for entry in entries)
