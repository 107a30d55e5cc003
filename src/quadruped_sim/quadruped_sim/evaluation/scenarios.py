"""The scenarios of an evaluation: terrains, commands, disturbances, and limits for expert and policy."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec.structs import replace as changed

from fcnet_core.observation.sensors import DEFAULT, SensorModel
from fcnet_core.robot import Robot
from quadruped_sim.evaluation.getting_up import Kind
from quadruped_sim.physics.randomization import TYPICAL, Randomization, Range
from quadruped_sim.physics.terrain import Terrain, terrain_from_facts
from quadruped_sim.tasks.setpoints import SetpointRanges

FOR_EVER = (1e9, 1e9)
Commands = dict[str, Range]

WALK: Commands = {"vx": (-0.5, 1.0), "vy": (-0.3, 0.3), "yaw_rate": (-0.8, 0.8)}
POSE_WALK: Commands = {"vx": (-0.3, 0.6), "vy": (-0.15, 0.15), "yaw_rate": (-0.5, 0.5)}
ROUGH_WALK: Commands = {"vx": (-0.4, 0.7), "vy": (-0.2, 0.2), "yaw_rate": (-0.5, 0.5)}
AHEAD: Commands = {"vx": (0.3, 0.6), "vy": (-0.1, 0.1), "yaw_rate": (-0.15, 0.15)}
# Of all commands that a policy's envelope admits: an expert, which has no envelope, is given wider ones, so that its
# returns cannot be compared with the policy's.
ALL_COMMANDS = ("corners", "random_5min")


@dataclass(frozen=True)
class Limits:
    """The most that is accepted: falls as a share of the episodes, of the expert's and of a policy's; mean absolute
    errors of velocity (vx, vy, yaw rate) [m/s, rad/s], height [m] and attitude [rad]; the share by which the mean of a
    held speed may differ from the commanded one; touchdowns per foot and stride; the share of time for which some joint
    is at its torque-speed curve. None: nothing is asked.
    """

    falls: float
    velocity: tuple[float, float, float] | None = None
    height: float | None = None
    attitude: float | None = None
    speed: float | None = None
    touchdowns: float | None = None
    saturation: float | None = None


@dataclass(frozen=True)
class Scenario:
    """One test. `share` is its number of episodes relative to the others', `push` the largest change of velocity [m/s]
    along x and along y that comes every two seconds, `kick` one [m/s] in any direction that comes once, `settling` the
    time [s] at the start in which nothing but falls counts, and `lying_share` the share of robots that begin lying, see
    getting_up. With `getting_up` the episodes are of that kind, see getting_up, and the other fields have no effect.
    """

    name: str
    limits: Limits
    commands: SetpointRanges
    terrain: dict[str, Any] = field(default_factory=lambda: {"kind": "flat"})
    randomization: Randomization = TYPICAL
    push: float = 0.0
    kick: float = 0.0
    seconds: float = 10.0
    share: float = 1.0
    settling: float = 1.0
    lying_share: float = 0.5
    getting_up: Kind | None = None

    @property
    def level(self) -> bool:
        """Whether the ground is level, so that the trunk's attitude can be compared with its command."""
        return self.terrain["kind"] == "flat"

    def build_terrain(self, number: int) -> Terrain:
        """Build the terrain; a random one differs from `number` to `number` and from those of `fcnet collect`."""
        return terrain_from_facts(**(self.terrain | {"seed": 2**31 + number}))


NONE, ALMOST_NONE = 0.0, 0.01  # of the episodes may end in a fall
SMALL, RARE_OF_SMALL_ROBOTS = 0.32, 0.02  # [m] nominal height; on ground at the limit for their legs


def getting_up() -> dict[str, Scenario]:
    """Return the scenarios of getting up by name; they run only if they are chosen."""
    return {
        "stand_up": Scenario("stand_up", Limits(NONE), SetpointRanges(), lying_share=1.0, getting_up="stand_up"),
        "recovery": Scenario("recovery", Limits(0.05), SetpointRanges(), lying_share=1.0, getting_up="recovery"),
    }


def scenarios(robot: Robot, sensors: SensorModel = DEFAULT) -> dict[str, Scenario]:
    """Return the scenarios of a robot's walk by name: all that an evaluation runs by default. sensors: their model."""
    rare = RARE_OF_SMALL_ROBOTS if robot.nominal_height < SMALL else ALMOST_NONE
    rows = [*_on_level_ground(robot), *_of_all_commands(robot), *_on_uneven_ground(rare)]
    every = {row.name: (row, changed(row.randomization, sensors=sensors)) for row in [*rows, *_disturbed(rare)]}
    return {name: replace(row, randomization=drawn) for name, (row, drawn) in every.items()}


def _held(commands: Commands) -> SetpointRanges:
    return SetpointRanges(always=commands, hold=FOR_EVER)


def _on_level_ground(robot: Robot) -> Iterator[Scenario]:
    walk = SetpointRanges(always=WALK)
    yield Scenario("flat", Limits(NONE, (0.04, 0.03, 0.04)), walk)
    for name, push, falls in (("pushes", 0.8, NONE), ("pushes_1.5", 1.5, ALMOST_NONE), ("pushes_2.0", 2.0, 0.1)):
        yield Scenario(name, Limits(falls), walk, push=push)
    for kick, falls in ((1.5, ALMOST_NONE), (2.0, 0.1)):
        yield Scenario(f"kick_{kick}", Limits(falls), walk, kick=kick)
    run = Limits(NONE, (0.15, 0.15, 0.15))
    yield Scenario("run_1.5", run, _held({"vx": (1.5, 1.5)}))
    yield Scenario("run_2.0", replace(run, touchdowns=1.15, saturation=0.1), _held({"vx": (2.0, 2.0)}))
    low, tilt = 0.85 * robot.commands["height"].lowest, {"roll": (-0.25, 0.25), "pitch": (-0.18, 0.18)}
    limits = Limits(NONE, (0.05, 0.05, 0.05), height=0.02, attitude=0.05)
    postures: dict[str, Commands] = {
        "crawl": {**POSE_WALK, "height": (low, low)},
        "tilt": {**POSE_WALK, **tilt},
        "squeeze": {**POSE_WALK, "width": (-0.35, -0.35)},
        "stand": {"height": (low, 0.0), **tilt},
    }
    for name, commands in postures.items():
        yield Scenario(name, limits, SetpointRanges(always=commands))


def _of_all_commands(robot: Robot) -> Iterator[Scenario]:
    """Whatever is accepted: held corners of all ranges, of which a policy's envelope leaves what it admits, and corners
    of velocity alone, of which it leaves more; changing commands for minutes; and forward speeds one by one with three
    delays.
    """
    every: Commands = {name: (limits.lowest, limits.highest) for name, limits in robot.commands.items()}
    velocity: Commands = {name: every[name] for name in ("vx", "vy", "yaw_rate")}
    shape: Commands = {name: ends for name, ends in every.items() if name not in velocity}
    corners = SetpointRanges(velocity, shape, sometimes_share=0.5, hold=FOR_EVER, levels=2)
    yield Scenario(ALL_COMMANDS[0], Limits(NONE), corners, seconds=7.0, share=1 / 3)
    anything = SetpointRanges(always=every, standing_share=0.1)
    yield Scenario(ALL_COMMANDS[1], Limits(NONE), anything, seconds=300.0, share=1 / 15)
    speeds = SetpointRanges(always={"vx": (0.2, 2.0)}, hold=FOR_EVER, levels=10)
    for delay in (0, 10, 20):
        late = changed(TYPICAL, delay=(delay / 1000, delay / 1000), jitter=0.0)
        limits = Limits(NONE, speed=0.05)
        yield Scenario(f"speeds_{delay}ms", limits, speeds, randomization=late, share=1 / 3, settling=3.0)


def _on_uneven_ground(rare: float) -> Iterator[Scenario]:
    for amplitude, falls in ((0.04, NONE), (0.06, rare)):
        limits, terrain = Limits(falls, (0.06, 0.06, 0.06)), {"kind": "rough", "amplitude": amplitude}
        yield Scenario(f"rough_{amplitude * 100:.0f}cm", limits, SetpointRanges(always=ROUGH_WALK), terrain)

    def ahead(name: str, falls: float, terrain: dict[str, Any], clearance: float = 0.0) -> Scenario:
        lifted = {"clearance": (clearance, clearance)} if clearance else {}
        return Scenario(name, Limits(falls, (0.1, 0.1, 0.1)), _held({**AHEAD, **lifted}), terrain)

    for degrees, falls in ((10, NONE), (15, rare)):
        for way, kind, sign in (("up", "slope", 1), ("down", "slope", -1), ("across", "side_slope", 1)):
            yield ahead(f"slope_{degrees}deg_{way}", falls, {"kind": kind, "degrees": sign * degrees})
    for rise, falls, clearance in ((0.06, NONE, 0.04), (0.10, rare, 0.06)):
        for way, sign in (("up", 1), ("down", -1)):
            name, terrain = f"stairs_{rise * 100:.0f}cm_{way}", {"kind": "stairs", "rise": sign * rise}
            yield ahead(name, falls, terrain, clearance)
    straight = _held({"vx": (0.4, 0.7), "yaw_rate": (-0.05, 0.05)})  # over the demo's slope and step, feet not lifted
    yield Scenario("course", Limits(NONE, (0.1, 0.1, 0.1)), straight, {"kind": "course"}, seconds=14.0)
    yield ahead("obstacles_6cm", rare, {"kind": "obstacles", "tallest": 0.06}, clearance=0.04)
    slippery = {"kind": "patch", "friction": 0.1, "length": 0.6}
    yield Scenario("patch_0.1", Limits(0.1), _held(AHEAD), slippery, share=1 / 3)


def _disturbed(rare: float) -> Iterator[Scenario]:
    walk = SetpointRanges(always=WALK)
    disturbances: dict[str, tuple[float, dict[str, Any]]] = {
        "friction_0.5": (rare, {"friction": (0.5, 0.5)}),
        "friction_0.35": (rare, {"friction": (0.35, 0.35)}),
        "payload_5kg": (NONE, {"payload": (5.0, 5.0)}),
        "weak_motors": (NONE, {"strength": (0.8, 0.8)}),
        "delay_20ms": (ALMOST_NONE, {"delay": (0.02, 0.04)}),
        "double_noise": (NONE, {"noise": 2.0}),
    }
    for name, (falls, changes) in disturbances.items():
        yield Scenario(name, Limits(falls), walk, randomization=changed(TYPICAL, **changes))
    yield Scenario("endurance", Limits(ALMOST_NONE), walk, push=0.4, seconds=60.0, share=1 / 3)
