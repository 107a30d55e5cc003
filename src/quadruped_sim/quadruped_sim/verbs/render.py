"""fcnet render: a GIF, film or picture of a policy in the simulator."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Annotated, get_args

import numpy as np
from msgspec import Meta
from PIL import Image
from tqdm import tqdm

from fcnet_core import counted
from fcnet_core.errors import SimulationError
from fcnet_core.files import NotNegative, check_writable, option, write_whole
from fcnet_core.model_file import check_robot, load_model
from fcnet_core.robot import load_robot
from quadruped_sim.physics.placement import StartPose
from quadruped_sim.physics.terrain import named_terrain
from quadruped_sim.render.movie import captioned, film_writer
from quadruped_sim.render.renderer import Renderer, camera_named
from quadruped_sim.render.trajectory import LONGEST, Trajectory, averaged, parse_phase, trajectory_of_policy

SUMMARY = "render a policy in the simulator as a GIF, film or picture"
EPILOG = """
A policy walks in the simulator and follows --commands. `fcnet replay BAG --report` plays a bag back. No display is
needed. OpenGL is required; Mesa's software renderer is sufficient (Debian, Ubuntu: apt install libegl1 libgl1).
MUJOCO_GL=osmesa or glfw selects another backend.

examples:
  fcnet render models/aliengo.safetensors -o walk.gif --terrain stairs_up
  fcnet render models/aliengo.safetensors -o run.mp4 --commands 2:vx=0.5 5:vx=2.0 2: --camera side
  fcnet render models/a1.safetensors -o recovery.gif --start on_back
"""
DEFAULT_COMMANDS = ["8:vx=0.6"]
Length = Annotated[float, Meta(ge=0.02, le=LONGEST)]  # [s]
Rate = Annotated[float, Meta(ge=1, le=100)]  # [Hz]
STRIDE = 0.4  # [s] over which measured velocities are averaged


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a file, a run or a name of `fcnet list models`")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="output file: .gif or .mp4, or .png for a still of the last control period",
    )
    parser.add_argument("--terrain", default="flat", metavar="NAME|FILE", help="the ground (default: flat)")
    parser.add_argument(
        "--commands",
        nargs="+",
        metavar="SECONDS:FIELD=VALUE,...",
        default=DEFAULT_COMMANDS,
        help=f"commands, one after the other (default: {' '.join(DEFAULT_COMMANDS)})",
    )
    parser.add_argument(
        "--start", default="standing", metavar="POSE", help="start pose: standing (default), lying or on_back"
    )
    parser.add_argument(
        "--from",
        dest="begin",
        type=option(NotNegative),
        default=0.0,
        metavar="S",
        help="time in the walk at which the film starts (default: 0)",
    )
    parser.add_argument(
        "--seconds", type=option(Length), default=20.0, metavar="S", help="maximum duration (default: 20)"
    )
    parser.add_argument(
        "--camera", default="corner", metavar="NAME", help="corner (default), side, front, chase or top"
    )
    parser.add_argument("--size", default="640x360", metavar="WxH", help="of the picture (default: 640x360)")
    parser.add_argument("--fps", type=option(Rate), default=20.0, metavar="N", help="pictures a second (default: 20)")


def run(args: argparse.Namespace) -> int:
    """Write the file; return 0."""
    camera, film, size = camera_named(args.camera), film_writer(args.out), _size(args.size)
    check_writable(args.out)
    shown = _trajectory(args)
    pictures = np.arange(0.0, len(shown), max(1.0 / (args.fps * shown.period), 1.0)).astype(int)
    pictures = pictures[pictures < len(shown)]  # the last one may be rounded to beyond the end
    if args.out.suffix.lower() == ".png":
        pictures = pictures[-1:]
    measured = averaged(shown.measured, max(round(STRIDE / shown.period), 1))
    with Renderer(shown, camera, *size) as renderer:
        images = (
            captioned(Image.fromarray(renderer.draw(row)), shown.commanded[row], measured[row])
            for row in tqdm(pictures, unit="picture")
        )
        content = film(images, min(args.fps, 1.0 / shown.period))
    write_whole(args.out, content)
    print(f"wrote {args.out}: {counted(len(pictures), 'picture')}, {len(content) / 1e6:.2f} MB")
    return 0


def _trajectory(args: argparse.Namespace) -> Trajectory:
    """Return the walk of the policy."""
    starts: dict[str, StartPose] = {pose: pose for pose in get_args(StartPose)}
    if args.start not in starts:
        raise SimulationError(f"there is no start {args.start!r}; choose one of {', '.join(starts)}")
    terrain, phases = named_terrain(args.terrain), [parse_phase(text) for text in args.commands]
    model = load_model(args.model)
    robot = load_robot(model.card.interface.name)
    check_robot(model, robot)
    trajectory = trajectory_of_policy(robot, model, terrain, phases, starts[args.start])
    return trajectory.part(args.begin, args.seconds)


def _size(text: str) -> tuple[int, int]:
    if not (sizes := re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)):
        raise SimulationError(f"{text!r} is no size of a picture; give its width and height in pixels, such as 640x360")
    return int(sizes[1]), int(sizes[2])
