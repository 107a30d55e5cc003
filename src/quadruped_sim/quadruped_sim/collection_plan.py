"""What to collect: a YAML file of parts, each a terrain with setpoints and disturbances, cut into shards."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from quadruped_sim.randomization import TYPICAL, Randomization
from quadruped_sim.setpoints import SetpointRanges
from quadruped_sim.terrain import Terrain, terrain_from_facts

Range = tuple[float, float]


class CollectionPlanError(ValueError):
    """A collection file is missing or cannot be used; the message says where and why."""


@dataclass(frozen=True)
class Part:
    """One kind of experience: `share` of all shards, on terrains cycled through from shard to shard."""

    name: str
    share: float
    terrains: tuple[dict[str, Any], ...]
    setpoints: SetpointRanges
    randomization: Randomization
    push: float = 0.0  # [m/s], on average every four seconds
    action_noise: float = 0.06  # [rad], largest standard deviation; correlated over a few steps


@dataclass(frozen=True)
class CollectionPlan:
    """How much of which parts: `shards` of `robots` x `seconds` each."""

    robot: str
    shards: int
    robots: int
    seconds: float
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        for name in ("shards", "robots", "seconds"):
            if not getattr(self, name) > 0:
                raise CollectionPlanError(f"{name} must be more than 0, not {getattr(self, name)}")


@dataclass(frozen=True)
class Job:
    """One shard to collect."""

    index: int
    seed: int
    part: Part
    terrain: dict[str, Any] = field(default_factory=dict)

    def build_terrain(self) -> Terrain:
        """The shard's terrain; random ones differ from shard to shard."""
        facts = dict(self.terrain)
        if facts["kind"] in ("rough", "obstacles"):
            facts["seed"] = self.seed
        return terrain_from_facts(**facts)


def load_plan(path: Path) -> CollectionPlan:
    """Read a collection file; CollectionPlanError says what is wrong in one sentence."""
    if not path.is_file():
        raise CollectionPlanError(f"there is no collection file {path}; see config/collect/ for those that ship")
    try:
        facts = yaml.safe_load(path.read_text())
        parts = tuple(_part(name, **entry) for name, entry in facts.pop("parts").items())
        return CollectionPlan(parts=parts, **facts)
    except KeyError as error:
        raise CollectionPlanError(f"collection file {path} lacks the entry {error}") from error
    except (TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
        raise CollectionPlanError(f"collection file {path} cannot be used: {error}") from error


def jobs(plan: CollectionPlan, seed: int) -> list[Job]:
    """The plan's shards, parts interleaved, so that even an interrupted collection holds a bit of everything."""
    total = sum(part.share for part in plan.parts)
    made = dict.fromkeys(range(len(plan.parts)), 0)
    chosen = []
    for index in range(plan.shards):
        wanted = [plan.parts[i].share / total * (index + 1) - made[i] for i in made]
        which = max(made, key=lambda i: wanted[i])
        part = plan.parts[which]
        chosen.append(Job(index, seed * 100_000 + index, part, part.terrains[made[which] % len(part.terrains)]))
        made[which] += 1
    return chosen


def _part(
    name: str,
    share: float,
    terrains: list[dict[str, Any]],
    setpoints: dict[str, Any],
    randomization: dict[str, Any] | None = None,
    **rest: float,
) -> Part:
    always, sometimes = (_ranges(setpoints.pop(key, {})) for key in ("always", "sometimes"))
    drawn = Randomization(**{**vars(TYPICAL), **{k: _pair(v) for k, v in (randomization or {}).items()}})
    for facts in terrains:
        terrain_from_facts(**facts)
    hold = _pair(setpoints.pop("hold", (1.5, 5.0)))
    asked = SetpointRanges(always=always, sometimes=sometimes, hold=hold, **setpoints)
    return Part(name, share, tuple(terrains), asked, drawn, **rest)


def _ranges(entries: dict[str, Any]) -> dict[str, Range]:
    return {name: _pair(value) for name, value in entries.items()}


def _pair(value: Any) -> Range:
    low, high = value if isinstance(value, list | tuple) else (value, value)
    return float(low), float(high)
