"""fcnet render: a GIF, film or picture of a policy in the simulator."""

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
from quadruped_sim.render.renderer import CAMERAS, pictures
from quadruped_sim.render.trajectory import LONGEST, averaged, parse_phase, trajectory_of_policy

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
DEFAULT_COMMAND = "8:vx=0.6"
Length = Annotated[float, Meta(ge=0.02, le=LONGEST)]  # [s]
Rate = Annotated[float, Meta(ge=1, le=100)]  # [Hz]
STRIDE = 0.4  # [s] over which measured velocities are averaged


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add, phases = parser.add_argument, "SECONDS:FIELD=VALUE,..."
    add("model", type=Path, metavar="MODEL", help="a file, a run or a name of `fcnet list models`")
    file = "output file: .gif or .mp4, or .png for a still of the last control period"
    add("-o", "--out", type=Path, required=True, metavar="FILE", help=file)
    add("--terrain", default="flat", metavar="NAME|FILE", help="the ground (default: flat)")
    commands = f"commands, one after the other (default: {DEFAULT_COMMAND})"
    add("--commands", nargs="+", metavar=phases, default=[DEFAULT_COMMAND], help=commands)
    add("--start", choices=get_args(StartPose), default="standing", help="start pose (default: standing)")
    begin = "time in the walk at which the film starts (default: 0)"
    add("--from", dest="begin", type=option(NotNegative), default=0.0, metavar="S", help=begin)
    add("--seconds", type=option(Length), default=20.0, metavar="S", help="maximum duration (default: 20)")
    add("--camera", choices=CAMERAS, default="corner", help="camera position (default: corner)")
    add("--size", default="640x360", metavar="WxH", help="size of the picture (default: 640x360)")
    add("--fps", type=option(Rate), default=20.0, metavar="N", help="pictures per second (default: 20)")


def run(args: argparse.Namespace) -> int:
    """Write the file; return 0."""
    film, sizes = film_writer(args.out), re.fullmatch(r"(\d{1,5})x(\d{1,5})", args.size)
    if not sizes:
        raise SimulationError(f"{args.size!r} is no size of a picture; give width and height in pixels: 640x360")
    check_writable(args.out)
    terrain, phases, model = named_terrain(args.terrain), list(map(parse_phase, args.commands)), load_model(args.model)
    robot = load_robot(model.card.interface.name)
    check_robot(model, robot)
    shown = trajectory_of_policy(robot, model, terrain, phases, args.start, (args.begin, args.seconds))
    rows = np.arange(0.0, len(shown), max(1.0 / (args.fps * shown.period), 1.0)).astype(int)
    rows = rows[rows < len(shown)]  # the last one may be rounded to beyond the end
    if args.out.suffix.lower() == ".png":
        rows = rows[-1:]
    measured = averaged(shown.measured, max(round(STRIDE / shown.period), 1))
    drawn = pictures(shown, CAMERAS[args.camera], int(sizes[1]), int(sizes[2]), tqdm(rows, unit="picture"))
    images = (
        captioned(Image.fromarray(picture), shown.commanded[row], measured[row])
        for row, picture in zip(rows, drawn, strict=True)
    )
    content = film(images, min(args.fps, 1.0 / shown.period))
    write_whole(args.out, content)
    print(f"wrote {args.out}: {counted(len(rows), 'picture')}, {len(content) / 1e6:.2f} MB")
    return 0
