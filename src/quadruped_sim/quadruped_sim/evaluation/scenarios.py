"""The tests a policy has to pass: terrains, commands, disturbances, and what is expected of expert and student."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from fcnet_core.robot import Robot
from quadruped_sim.physics.randomization import TYPICAL, Randomization, Range
from quadruped_sim.physics.terrain import Terrain, terrain_from_facts
from quadruped_sim.rollout import SetpointRanges

FOR_EVER = (1e9, 1e9)
Commands = dict[str, Range]

WALK: Commands = {"vx": (-0.5, 1.0), "vy": (-0.3, 0.3), "yaw_rate": (-0.8, 0.8)}
POSE_WALK: Commands = {"vx": (-0.3, 0.6), "vy": (-0.15, 0.15), "yaw_rate": (-0.5, 0.5)}
ROUGH_WALK: Commands = {"vx": (-0.4, 0.7), "vy": (-0.2, 0.2), "yaw_rate": (-0.5, 0.5)}
AHEAD: Commands = {"vx": (0.3, 0.6), "vy": (-0.1, 0.1), "yaw_rate": (-0.15, 0.15)}


@dataclass(frozen=True)
class Limits:
    """The most that is accepted: falls as shares of the episodes, mean absolute errors of velocity (vx, vy, yaw rate)
    [m/s, rad/s], height [m] and attitude [rad]. None: nothing is asked.
    """

    expert_falls: float | None
    student_falls: float
    velocity: tuple[float, float, float] | None = None
    height: float | None = None
    attitude: float | None = None


@dataclass(frozen=True)
class Scenario:
    """One test. `share` is its number of episodes relative to the others', `push` [m/s] comes every two seconds."""

    name: str
    limits: Limits
    commands: SetpointRanges
    terrain: dict[str, Any] = field(default_factory=lambda: {"kind": "flat"})
    randomization: Randomization = TYPICAL
    push: float = 0.0
    seconds: float = 10.0
    share: float = 1.0

    @property
    def level(self) -> bool:
        """Whether the ground is level, so that the trunk's attitude can be compared with its command."""
        return self.terrain["kind"] == "flat"

    def build_terrain(self, number: int) -> Terrain:
        """The terrain; a random one differs from `number` to `number`, and is not one that `fcnet collect` builds."""
        return terrain_from_facts(**(self.terrain | {"seed": 2**31 + number}))


def scenarios(robot: Robot) -> dict[str, Scenario]:
    """Every test of a robot by its name."""
    chosen = [*_on_level_ground(robot), *_on_rough_ground(), *_on_slopes_and_steps(), *_disturbed()]
    return {scenario.name: scenario for scenario in chosen}


def _held(commands: Commands) -> SetpointRanges:
    return SetpointRanges(always=commands, hold=FOR_EVER)


def _on_level_ground(robot: Robot) -> Iterator[Scenario]:
    walk = SetpointRanges(always=WALK)
    yield Scenario("flat", Limits(0.0, 1 / 300, (0.05, 0.03, 0.05)), walk)
    yield Scenario("pushes", Limits(0.01, 0.02), walk, push=0.8)
    for vx in (1.5, 2.0):
        yield Scenario(f"run_{vx:.1f}", Limits(0.01, 0.02, (0.15, 0.15, 0.15)), _held({"vx": (vx, vx)}))
    low, tilt = 0.85 * robot.commands["height"].lowest, {"roll": (-0.25, 0.25), "pitch": (-0.18, 0.18)}
    limits = Limits(0.0, 0.01, (0.05, 0.05, 0.05), height=0.02, attitude=0.05)
    postures: dict[str, Commands] = {
        "crawl": {**POSE_WALK, "height": (low, low)},
        "tilt": {**POSE_WALK, **tilt},
        "squeeze": {**POSE_WALK, "width": (-0.35, -0.35)},
        "stand": {"height": (low, 0.0), **tilt},
    }
    for name, commands in postures.items():
        yield Scenario(name, limits, SetpointRanges(always=commands))


def _on_rough_ground() -> Iterator[Scenario]:
    for amplitude, falls in ((0.04, 0.01), (0.06, 0.03)):
        limits, terrain = Limits(0.01, falls, (0.06, 0.06, 0.06)), {"kind": "rough", "amplitude": amplitude}
        yield Scenario(f"rough_{amplitude * 100:.0f}cm", limits, SetpointRanges(always=ROUGH_WALK), terrain)


def _on_slopes_and_steps() -> Iterator[Scenario]:
    def ahead(name: str, falls: float, terrain: dict[str, Any], clearance: float = 0.0) -> Scenario:
        lifted = {"clearance": (clearance, clearance)} if clearance else {}
        return Scenario(name, Limits(0.02, falls, (0.1, 0.1, 0.1)), _held({**AHEAD, **lifted}), terrain)

    for degrees, falls in ((10, 0.02), (15, 0.05)):
        for way, kind, sign in (("up", "slope", 1), ("down", "slope", -1), ("across", "side_slope", 1)):
            yield ahead(f"slope_{degrees}deg_{way}", falls, {"kind": kind, "degrees": sign * degrees})
    for rise, falls, clearance in ((0.06, 0.02, 0.04), (0.10, 0.05, 0.06)):
        for way, sign in (("up", 1), ("down", -1)):
            name, terrain = f"stairs_{rise * 100:.0f}cm_{way}", {"kind": "stairs", "rise": sign * rise}
            yield ahead(name, falls, terrain, clearance)
    yield ahead("obstacles_6cm", 0.02, {"kind": "obstacles", "tallest": 0.06}, clearance=0.04)


def _disturbed() -> Iterator[Scenario]:
    walk, any_expert = SetpointRanges(always=WALK), Limits(None, 0.03)
    disturbances: dict[str, tuple[Limits, dict[str, Any]]] = {
        "friction_0.5": (Limits(0.02, 0.03), {"friction": (0.5, 0.5)}),
        "friction_0.35": (Limits(0.10, 0.15), {"friction": (0.35, 0.35)}),
        "payload_5kg": (any_expert, {"payload": (5.0, 5.0)}),
        "weak_motors": (any_expert, {"strength": (0.8, 0.8)}),
        "delay_20ms": (any_expert, {"delay": (0.02, 0.04)}),
        "double_noise": (any_expert, {"noise": 2.0}),
    }
    for name, (limits, changes) in disturbances.items():
        yield Scenario(name, limits, walk, randomization=replace(TYPICAL, **changes))
    yield Scenario("endurance", Limits(0.0, 0.03), walk, push=0.4, seconds=60.0, share=1 / 3)
