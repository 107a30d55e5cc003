"""The parameters of the MuJoCo bridge, declared with description and range."""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.node import Node

from fcnet_ros.recorder_gate import DESCRIPTION, LONGEST_TIMEOUT
from sim_bridge.parameter_declaration import declare, declare_number

START_POSES = ("lying", "standing")


@dataclass(frozen=True)
class Settings:
    """What the bridge simulates and how fast; see the descriptions below."""

    robot: str
    terrain: str
    start: str
    real_time_factor: float
    timestep: float
    publish_rate: float
    command_timeout: float
    patience: float
    sensor_noise: float
    seed: int
    viewer: bool
    recorder_timeout: float

    @property
    def substeps(self) -> int:
        """Time steps between two publications."""
        return round(1.0 / (self.publish_rate * self.timestep))

    @property
    def period(self) -> float:
        """Simulated seconds between two publications."""
        return self.substeps * self.timestep


def declare_settings(node: Node) -> Settings:
    """Declare the parameters of `node` and read them. Raises ValueError with a sentence for what cannot be."""
    settings = Settings(
        robot=declare(node, "robot", "aliengo", "robot to simulate, a file in config/robots"),
        terrain=declare(node, "terrain", "flat", "ground to walk on, a name from quadruped_sim/terrain.py"),
        start=declare(node, "start", "lying", f"pose after start and reset: {' or '.join(START_POSES)}"),
        real_time_factor=declare_number(node, "real_time_factor", 1.0, (0.05, 20.0), "simulated seconds per second"),
        timestep=declare_number(node, "timestep", 0.004, (0.0005, 0.005), "time step of the physics [s]"),
        publish_rate=declare_number(node, "publish_rate", 250.0, (50.0, 1000.0), "states per simulated second [Hz]"),
        command_timeout=declare_number(
            node, "command_timeout", 0.1, (0.01, 5.0), "age [s] beyond which a command is dropped and joints are damped"
        ),
        patience=declare_number(
            node, "patience", 0.0, (0.0, 10.0), "real time [s] for which the simulation waits for a late controller"
        ),
        sensor_noise=declare_number(
            node, "sensor_noise", 1.0, (0.0, 10.0), "sensor noise as a multiple of that in training"
        ),
        seed=declare(node, "seed", 0, "seed of the sensor noise and of random pushes", integer=(0, 2**31 - 1)),
        viewer=declare(node, "viewer", False, "open MuJoCo's window; needs a display"),
        recorder_timeout=declare_number(node, "recorder_timeout", 0.0, (0.0, LONGEST_TIMEOUT), DESCRIPTION),
    )
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    if settings.start not in START_POSES:
        raise ValueError(f"start is {settings.start!r}; choose {' or '.join(START_POSES)}")
    if settings.substeps < 1 or abs(settings.period * settings.publish_rate - 1.0) > 1e-6:
        raise ValueError(
            f"publish_rate {settings.publish_rate:g} Hz does not fit the timestep of {settings.timestep:g} s; "
            f"choose a rate whose period is a multiple of it, such as {0.5 / settings.timestep:g} Hz"
        )
