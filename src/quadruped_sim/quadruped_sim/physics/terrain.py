"""Terrains: their MuJoCo geometry and their height, flat around the origin, changing from `START` metres along +x."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError, SimulationError
from fcnet_core.files import converted, read_settings

Degrees = Annotated[float, Meta(ge=-60, le=60)]
Height = Annotated[float, Meta(ge=0, le=5)]  # [m]
Seed = Annotated[int, Meta(ge=0, le=2**62)]
Several = Annotated[int, Meta(ge=1, le=1000)]

START = 1.5  # [m] where slopes and stairs begin
HALF_WIDTH = 8.0  # [m] of slopes and stairs
GROUND = 'contype="1" conaffinity="0" material="ground"'


@dataclass(frozen=True)
class Terrain(ABC):
    """The ground. Robots may start within `spawn_radius` [m] of the origin, along x and along y."""

    spawn_radius: ClassVar[float] = 0.0

    def assets(self) -> str:
        """Return MJCF for the <asset> section."""
        return ""

    @abstractmethod
    def geoms(self) -> str:
        """Return MJCF for the <worldbody> section."""

    def height(self, x: Array, y: Array) -> Array:
        """Return the height of the ground [m] at world positions x, y [m]; level ground has height 0."""
        return np.zeros_like(x)

    @property
    def height_field(self) -> Array | None:
        """Samples in [0, 1] of the height field named `ground`, if there is one."""
        return None


def box(x: float, y: float, z: float, half: tuple[float, float, float], pitch: float = 0.0, more: str = "") -> str:
    """Return MJCF of a box of the ground, `half` its half sizes [m], `pitch` its rotation about y [rad], `more` further
    attributes.
    """
    size = " ".join(f"{value:.6g}" for value in half)
    return f'<geom type="box" pos="{x:.6g} {y:.6g} {z:.6g}" size="{size}" euler="0 {pitch:.6g} 0" {GROUND} {more}/>'


def slab(begin: float, end: float, top: float = 0.0, depth: float = 1.0, more: str = "") -> str:
    """Return MJCF of a level box as wide as the ground, from x = `begin` to `end`, with its top at this height [m]."""
    half = ((end - begin) / 2, HALF_WIDTH, depth / 2)
    return box((begin + end) / 2, 0.0, top - depth / 2, half, more=more)


def plane(z: float = 0.0, roll: float = 0.0) -> str:
    """Return MJCF of an endless plane, `roll` its rotation about x [rad]."""
    return f'<geom name="floor" type="plane" pos="0 0 {z:.6g}" size="0 0 .05" euler="{roll:.6g} 0 0" {GROUND}/>'


@dataclass(frozen=True)
class Flat(Terrain):
    """An endless plane."""

    def geoms(self) -> str:
        return plane()


@dataclass(frozen=True)
class Slope(Terrain):
    """An incline that begins at START: up or down (negative `degrees`)."""

    degrees: Degrees

    def geoms(self) -> str:
        angle, half_length, half_depth = np.deg2rad(self.degrees), 15.0, 0.5
        x = START + half_length * np.cos(angle) + half_depth * np.sin(angle)
        z = half_length * np.sin(angle) - half_depth * np.cos(angle)
        incline = box(float(x), 0.0, float(z), (half_length, HALF_WIDTH, half_depth), float(-angle))
        return slab(START - 20.0, START) + incline

    def height(self, x: Array, y: Array) -> Array:
        return np.maximum(x - START, 0.0) * np.tan(np.deg2rad(self.degrees))


@dataclass(frozen=True)
class SideSlope(Terrain):
    """An endless incline that rises towards +y, walked across along x."""

    degrees: Degrees

    def geoms(self) -> str:
        return plane(roll=float(np.deg2rad(self.degrees)))

    def height(self, x: Array, y: Array) -> Array:
        return y * np.tan(np.deg2rad(self.degrees))


@dataclass(frozen=True)
class Stairs(Terrain):
    """A flight of `steps`, each of `rise` [m] (negative: down) and `run` [m], then a level landing."""

    rise: Annotated[float, Meta(ge=-1, le=1)]
    run: Annotated[float, Meta(ge=0.05, le=10)] = 0.30
    steps: Several = 12

    def geoms(self) -> str:
        parts = [slab(START - 20.0, START)]
        for step in range(1, self.steps + 1):
            begin, length = START + self.run * (step - 1), self.run if step < self.steps else 20.0
            parts.append(slab(begin, begin + length, step * self.rise))
        return "".join(parts)

    def height(self, x: Array, y: Array) -> Array:
        return np.clip(np.floor((x - START) / self.run) + 1, 0, self.steps) * self.rise


@dataclass(frozen=True)
class Rough(Terrain):
    """A random height field of +-`amplitude` [m] in cells of 20 cm, level at the origin."""

    amplitude: Height
    seed: Seed = 0
    half_size: Annotated[float, Meta(ge=1, le=100)] = 15.0
    spawn_radius: ClassVar[float] = 3.0

    @cached_property
    def height_field(self) -> Array:
        cells = int(self.half_size / 0.2)
        steps = np.kron(np.random.default_rng(self.seed).random((2 * cells, 2 * cells)), np.ones((2, 2)))
        return (steps + np.roll(steps, 1, 0) + np.roll(steps, 1, 1) + np.roll(steps, (1, 1), (0, 1))) / 4

    def assets(self) -> str:
        rows = len(self.height_field)
        size = f"{self.half_size} {self.half_size} {2 * self.amplitude} .5"
        return f'<hfield name="ground" nrow="{rows}" ncol="{rows}" size="{size}"/>'

    def geoms(self) -> str:
        return f'<geom name="floor" type="hfield" hfield="ground" pos="0 0 {-self.amplitude}" {GROUND}/>'

    def height(self, x: Array, y: Array) -> Array:
        samples = self.height_field
        last = len(samples) - 1
        column = np.clip((x + self.half_size) / (2 * self.half_size) * last, 0, last - 1e-3)
        row = np.clip((y + self.half_size) / (2 * self.half_size) * last, 0, last - 1e-3)
        i, j = row.astype(int), column.astype(int)
        u, v = row - i, column - j
        lower = samples[i, j] * (1 - v) + samples[i, j + 1] * v
        upper = samples[i + 1, j] * (1 - v) + samples[i + 1, j + 1] * v
        return (lower * (1 - u) + upper * u) * 2 * self.amplitude - self.amplitude


@dataclass(frozen=True)
class Patch(Terrain):
    """Level ground with a slippery patch, `length` [m] long and as wide as the ground, at START."""

    friction: Annotated[float, Meta(ge=0, le=10)]
    length: Annotated[float, Meta(ge=0.05, le=20)] = 0.6

    def geoms(self) -> str:
        end = START + self.length
        slippery = f'priority="1" friction="{self.friction} .005 .0001" rgba=".6 .8 1 1"'  # whatever the foot's is
        return slab(START - 20.0, START) + slab(START, end, more=slippery) + slab(end, end + 20.0)


@dataclass(frozen=True)
class Obstacles(Terrain):
    """Boxes of up to `tallest` [m] scattered over the way ahead, 0.2 to 0.8 m wide."""

    tallest: Height
    seed: Seed = 0
    count: Several = 60

    @cached_property
    def _boxes(self) -> Array:
        """Centre x, y, half sizes x, y and height [m] of each (count, 5)."""
        low, high = (0.9, -1.6, 0.1, 0.1, self.tallest / 3), (7.5, 1.6, 0.4, 0.4, self.tallest)
        return np.random.default_rng(self.seed).uniform(low, high, (self.count, 5))

    def geoms(self) -> str:
        boxes = (box(x, y, h / 2, (half_x, half_y, h / 2)) for x, y, half_x, half_y, h in self._boxes)
        return plane() + "".join(boxes)

    def height(self, x: Array, y: Array) -> Array:
        centre_x, centre_y, half_x, half_y, tall = self._boxes.T
        inside = (np.abs(x[..., None] - centre_x) < half_x) & (np.abs(y[..., None] - centre_y) < half_y)
        return np.max(np.where(inside, tall, 0.0), axis=-1)


@dataclass(frozen=True)
class Course(Terrain):
    """The demo's course: from START a ramp up, a level top, a ramp down, level ground, and `steps` of `rise` [m] up and
    down again.
    """

    degrees: Annotated[float, Meta(gt=0, le=45)] = 10.0
    rise: Height = 0.06
    steps: Several = 1
    ramp: ClassVar[float] = 1.2  # [m] along x
    ends: ClassVar[tuple[float, ...]] = (START + 1.2, START + 1.8, START + 3.0)  # of ramp, top and ramp
    stairs: ClassVar[float] = START + 3.7
    run: ClassVar[float] = 0.3  # [m] of a step
    landing: ClassVar[float] = 1.0  # [m]

    @property
    def end(self) -> float:
        """Where the steps end."""
        return self.stairs + self.landing + 2 * (self.steps - 1) * self.run

    def geoms(self) -> str:
        angle, depth = float(np.deg2rad(self.degrees)), 0.1
        half, top = self.ramp / 2, self.ramp * float(np.tan(angle))
        ramp = (half / float(np.cos(angle)), HALF_WIDTH, depth)
        inwards, z = depth * float(np.sin(angle)), top / 2 - depth * float(np.cos(angle))
        up, level, down = self.ends
        parts = [plane(), box(up - half + inwards, 0.0, z, ramp, -angle), slab(up, level, top, top)]
        parts.append(box(down - half - inwards, 0.0, z, ramp, angle))
        for step in range(self.steps):
            run, top = step * self.run, (step + 1) * self.rise
            parts.append(slab(self.stairs + run, self.end - run, top, top))
        return "".join(parts)

    def height(self, x: Array, y: Array) -> Array:
        slope = np.tan(np.deg2rad(self.degrees))
        up, level, down = self.ends
        hill = np.interp(x, (START, up, level, down), (0.0, self.ramp * slope, self.ramp * slope, 0.0))
        climbed = np.floor(np.minimum(x - self.stairs, self.end - x) / self.run) + 1
        return hill + np.clip(climbed, 0, self.steps) * self.rise


KINDS: dict[str, type[Terrain]] = {
    "flat": Flat,
    "rough": Rough,
    "slope": Slope,
    "side_slope": SideSlope,
    "stairs": Stairs,
    "patch": Patch,
    "obstacles": Obstacles,
    "course": Course,
}
RANDOM = ("rough", "obstacles")  # kinds, and the terrains of their names, that differ from seed to seed
FILES = (".yaml", ".yml")  # how the name of a terrain ends that is a file
TERRAINS: dict[str, Terrain] = {
    "flat": Flat(),
    "rough": Rough(0.04),
    "slope_up": Slope(10.0),
    "slope_down": Slope(-10.0),
    "slope_across": SideSlope(10.0),
    "stairs_up": Stairs(0.06),
    "stairs_down": Stairs(-0.06),
    "obstacles": Obstacles(0.06),
    "course": Course(),
}


def terrain_from_facts(kind: str, *, seed: int = 0, **facts: Any) -> Terrain:
    """Make a terrain from its kind (one of KINDS), the parameters of that kind, and the seed of a random one.

    Raises SimulationError for an unknown kind or parameter, and for an invalid value.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise SimulationError(f"there is no terrain of kind {kind!r}; choose one of {', '.join(KINDS)}")
    given = facts | ({"seed": seed} if kind in RANDOM else {})
    if odd := sorted(map(str, given.keys() - {field.name for field in fields(KINDS[kind])})):
        raise SimulationError(f"terrain {kind}: it has no {odd[0]}")
    try:
        return converted(given, KINDS[kind])
    except FcnetError as error:
        raise SimulationError(f"terrain {kind}: {error}") from error


def named_terrain(name: str, *, seed: int = 0) -> Terrain:
    """Return the terrain called `name`, one of TERRAINS or a YAML file, with the seed of a random one.

    A file holds the kind and the parameters of a terrain, such as `{kind: stairs, rise: 0.1, run: 0.35}`, as in
    config/collect; a seed in it takes precedence. Raises FcnetError that lists the names.
    """
    if name.endswith(FILES):
        facts = read_settings(name, dict[str, Any], "terrain")
        try:
            return terrain_from_facts(**({"kind": None, "seed": seed} | facts))
        except SimulationError as error:
            raise SimulationError(f"terrain {name} cannot be used: {error}") from error
    if name not in TERRAINS:
        known = ", ".join(TERRAINS)
        raise SimulationError(f"there is no terrain {name!r}; choose one of {known}, or name a {FILES[0]} file of one")
    return replace(TERRAINS[name], **({"seed": seed} if name in RANDOM else {}))


def listed() -> dict[str, str]:
    """Return a description of each of TERRAINS, with its parameters, for `fcnet list terrains`."""
    described = {}
    for name, terrain in TERRAINS.items():
        kind = " ".join((terrain.__doc__ or "").split()).rstrip(".")
        kind = kind.replace("`", "").replace("START", f"x = {START:g} m")
        given = [f"{field.name} {getattr(terrain, field.name):g}" for field in fields(terrain) if field.name != "seed"]
        described[name] = f"{kind} ({', '.join(given)})" if given else kind
    return described
