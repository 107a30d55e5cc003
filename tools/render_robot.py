"""Renders a picture of a robot that walks on its policy, several times along one walk; no display is needed.

MUJOCO_GL=egl python tools/render_robot.py --robot aliengo --output docs/images/aliengo.png
"""

from __future__ import annotations

import argparse
import struct
import zlib
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

import fcnet_core
from fcnet_core.command import CommandShaper
from fcnet_core.observation import assemble_observation
from fcnet_core.policy import load_policy
from fcnet_core.robot import SETPOINT_FIELDS, Robot, load_robot
from quadruped_sim.physics.simulation import CONTROL_PERIOD, Simulation
from quadruped_sim.physics.terrain import named_terrain

Image = npt.NDArray[np.uint8]
WIDTH, HEIGHT, OVERSAMPLING = 960, 480, 2
POSES = 3  # of the robot in one picture
PALEST = 0.25  # opacity of the first pose
MODELS = Path(fcnet_core.__file__).parent / "models"


def walk(robot: Robot, simulation: Simulation, model: Path, speed: float, duration: float) -> list[mujoco.MjData]:
    """Let the robot walk straight ahead at `speed` [m/s]; return its states, one per control period."""
    policy = load_policy(model, "numpy")
    shaper = CommandShaper(robot.commands, robot.gait, CONTROL_PERIOD)
    setpoint = np.zeros((1, len(SETPOINT_FIELDS)))
    setpoint[0, 0] = speed
    last, states = robot.stand_pose.copy(), []
    for _ in range(round(duration / CONTROL_PERIOD)):
        state, command = simulation.state(), shaper.step(setpoint)[0]
        sensed = (state.orientation[0], state.angular_velocity[0], state.joint_position[0], state.joint_velocity[0])
        last = policy.step(assemble_observation(*sensed, last, command)).astype(np.float64)
        simulation.step(last[None])
        states.append(_copy(simulation))
    return states


def render(model: mujoco.MjModel, poses: list[mujoco.MjData]) -> Image:
    """One picture (HEIGHT, WIDTH, 3) of the robot at each of `poses`, the last one solid."""
    centre = np.mean([data.qpos[:3] for data in poses], axis=0)
    _light(model, centre)
    mujoco.mj_forward(model, poses[-1])  # moves the light
    scenery = mujoco.MjvOption()
    spread = float(np.ptp([data.qpos[0] for data in poses])) + 0.6
    camera = mujoco.MjvCamera()
    camera.lookat[:] = centre - [0.0, 0.0, 0.05]
    camera.distance, camera.azimuth, camera.elevation = 0.87 * spread, 108.0, -16.0
    with mujoco.Renderer(model, HEIGHT * OVERSAMPLING, WIDTH * OVERSAMPLING, max_geom=2000) as renderer:
        renderer.update_scene(poses[-1], camera, scenery)
        scene = renderer.scene
        for index, data in enumerate(poses[:-1]):
            first = scene.ngeom
            mujoco.mjv_addGeoms(model, data, scenery, mujoco.MjvPerturb(), mujoco.mjtCatBit.mjCAT_DYNAMIC, scene)
            for geom in scene.geoms[first : scene.ngeom]:
                geom.rgba[3] *= PALEST + (0.8 - PALEST) * index / max(len(poses) - 2, 1)
        scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = True
        fine = renderer.render()
    parts = fine.reshape(HEIGHT, OVERSAMPLING, WIDTH, OVERSAMPLING, 3)
    return parts.mean(axis=(1, 3)).round().astype(np.uint8)


def png(image: Image) -> bytes:
    """The image (height, width, 3) as a PNG file."""
    height, width, _ = image.shape
    rows = image.astype(np.int16)
    rows[1:] -= image[:-1]  # each row as its difference to the one above: PNG's filter 2
    lines = np.concatenate([np.full((height, 1), 2), rows.reshape(height, -1) % 256], axis=1).astype(np.uint8)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def _light(model: mujoco.MjModel, centre: npt.NDArray[np.float64]) -> None:
    """Give the scene at `centre` (3,) [m] a sun that casts shadows, and make the pictures smooth."""
    model.vis.quality.shadowsize = 8192
    model.vis.quality.offsamples = 8
    model.vis.headlight.ambient[:] = 0.35
    model.vis.headlight.diffuse[:] = 0.3
    model.stat.center[:], model.stat.extent = centre, 20.0
    sun = np.array([0.25, -0.35, -1.0])
    model.light_castshadow[:] = True
    model.light_diffuse[:] = 0.7
    model.light_dir[:] = sun / np.linalg.norm(sun)
    model.light_pos[:] = centre - 4.0 * sun


def _copy(simulation: Simulation) -> mujoco.MjData:
    copied = mujoco.MjData(simulation.models[0])
    copied.qpos[:] = simulation.data[0].qpos
    mujoco.mj_forward(simulation.models[0], copied)
    return copied


def main() -> None:
    """Render the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    parser.add_argument("--policy", type=Path, help="model file; by default the one shipped for the robot")
    parser.add_argument("--terrain", default="flat", help="a name from quadruped_sim/physics/terrain.py")
    parser.add_argument("--speed", type=float, default=0.8, help="walking speed [m/s]")
    parser.add_argument("--output", type=Path, required=True, help="PNG file to write")
    arguments = parser.parse_args()
    robot = load_robot(arguments.robot)
    simulation = Simulation(robot, 1, named_terrain(arguments.terrain))
    model = arguments.policy or MODELS / f"{robot.name}.safetensors"
    states = walk(robot, simulation, model, arguments.speed, 4.0)
    apart = round(4.3 * robot.geometry.hip_x / arguments.speed / CONTROL_PERIOD)
    poses = states[-1 - (POSES - 1) * apart :: apart]
    arguments.output.write_bytes(png(render(simulation.models[0], poses)))


if __name__ == "__main__":
    main()
