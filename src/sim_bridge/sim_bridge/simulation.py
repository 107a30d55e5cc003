"""Shared by both simulated robots: pushes, the published ground, and MuJoCo's own window."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.node import Node

from fcnet_core.names import SECOND, HealthKey
from fcnet_core.observation import TrunkPose
from fcnet_core.robot import load_robot
from fcnet_ros.hardware import Status
from fcnet_ros.health import OK, SLOW, WARN
from fcnet_ros.parameters import read_parameters
from fcnet_ros.state_messages import GroundPatch
from fcnet_ros.topics import TERRAIN, steady_timer
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.placement import Place
from quadruped_sim.physics.terrain import Terrain, named_terrain
from sim_bridge.parameters import PUSH_DIRECTIONS, SimulationParameters

RobotT = TypeVar("RobotT", bound=LiveRobot)
VIEWER_PERIOD = 0.02  # [s] between two pictures
PATCH_STEP, PATCH_STEPS = 0.1, 40  # [m] between the points of `terrain`; how many to each side of the robot
PATCH_DISTANCE = 1.0  # [m] from a patch's middle after which the next one is published
PATCH_PERIOD = 0.5  # [s] between two looks at where the robot is


def simulated(kind: type[RobotT], settings: SimulationParameters, timestep: float, **more: Any) -> RobotT:
    """Return the simulated robot of these settings."""
    place = Place(settings.start_x, settings.start_y, settings.start_heading)
    world = (load_robot(settings.robot), named_terrain(settings.terrain))
    noise, seed = settings.sensor_noise, settings.seed
    return kind(*world, timestep=timestep, noise=noise, place=place, seed=seed, **more)


def push(node: Node, kind: type[SimulationParameters], robot: LiveRobot, lock: threading.Lock) -> str:
    """Push a robot, guarded by the lock, by the node's parameters; return the push in words. Raises ParameterError."""
    parameters = read_parameters(node, kind)
    direction = PUSH_DIRECTIONS[parameters.push_direction]
    with lock:
        direction = robot.shove(parameters.push_speed, direction, parameters.push_height)
    return f"pushed with {parameters.push_speed:g} m/s towards {direction:.2f} rad from its heading"


def timing(factor: float, target: float, robot: LiveRobot, **more: str) -> Status:
    """Return whether the real-time factor reaches its target, and whether the joints are damped."""
    values = {
        HealthKey.REAL_TIME_FACTOR: f"{factor:.3f}",
        HealthKey.WANTED_REAL_TIME_FACTOR: f"{target:.3f}",
        "joints": "damped" if robot.damped else "following",
        **more,
    }
    slow = factor < SLOW * target
    return Status(WARN, "slower than requested", values) if slow else Status(OK, "on time", values)


def publish_terrain(
    node: Node, terrain: Terrain, trunk: Callable[[], TrunkPose], now: Callable[[], int] | None = None
) -> None:
    """Publish the ground around a simulated robot on `terrain`, again after it has walked PATCH_DISTANCE.

    now: simulated [ns]; None for the time of day.
    """
    publisher, middle = TERRAIN.publisher(node), np.full(2, np.inf)

    def publish() -> None:
        place = trunk().position[:2]
        if not np.isfinite(place).all() or np.abs(place - middle).max() < PATCH_DISTANCE:
            return
        middle[:] = np.round(place / PATCH_STEP) * PATCH_STEP  # the points of all patches lie on one grid
        (x, y), offsets = middle, PATCH_STEP * np.arange(-PATCH_STEPS, PATCH_STEPS + 1)
        heights = terrain.height(*np.meshgrid(x + offsets, y + offsets))
        patch = GroundPatch(x + offsets[0], y + offsets[0], PATCH_STEP, heights)
        second, nanosecond = divmod(now() if now else node.get_clock().now().nanoseconds, SECOND)
        publisher.publish(patch.message(Time(sec=second, nanosec=nanosecond)))

    steady_timer(node, PATCH_PERIOD, publish)


class Viewer:
    """MuJoCo's window on a running simulation. Raises ValueError without a display."""

    def __init__(self, robot: LiveRobot) -> None:
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise ValueError("the viewer needs a display; leave out viewer:=true or set DISPLAY")
        self._window = robot.open_window()
        self._drawn = float("-inf")

    def draw(self) -> bool:
        """Draw the current state if VIEWER_PERIOD has passed since the last time; return whether the user has not
        closed the window.
        """
        if (now := time.monotonic()) - self._drawn >= VIEWER_PERIOD:
            self._drawn = now
            self._window.sync()
        return bool(self._window.is_running())

    def close(self) -> None:
        self._window.close()
