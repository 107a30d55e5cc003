"""Measures a robot's bridge at the wire, with controller and policy beside it: how regular its commands are, and how
long it takes from a state on the wire to the command that responds to it.

Real processes, DDS and UDP; this program is the motor board. Run it in a shell after `. env.sh`, on an otherwise idle
machine:
    python benchmarks/wire_loop.py --duration 60
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import Robot, load_robot
from fcnet_ros.testing import Client, Process, own_domain
from quadruped_sim.live_robot import MotorDrivenRobot
from quadruped_sim.terrain import named_terrain
from sim_bridge.mujoco_board import MujocoPhysics
from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.physics import JointPhysics

Array = npt.NDArray[np.float64]
START_TIMEOUT = 90.0  # [s] until the robot walks; a first start compiles
SETTLE = 2.0  # [s] for the policy's window to fill with a robot at rest
TILTED = (0.0, 0.1736, 0.0, 0.9848)  # 20 degrees of pitch, to which the policy must respond
FIRST_CHANGE = 2e-3  # [rad] between two commands, many times what a robot at rest shows
RESPONSE_TIMEOUT = 0.5  # [s]
SWITCH_INTERVAL = 0.0005  # [s] that this program's other threads may keep the board's from the interpreter
# Aims on two cores: mean rate [Hz], p99 of the period [ms], p50 of the latency [ms].
LEAST_RATE, LARGEST_P99, LARGEST_P50 = 499.0, 6.0, 25.0


class TiltingJoints(JointPhysics):
    """Joints whose trunk reads as tilted while `tilted`; `tilted_at` is when the first such state left."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot, noise=0.0)
        self.tilted = False
        self.tilted_at: float | None = None

    def sense(self) -> dict[str, Array]:
        """See BoardPhysics."""
        sensed = super().sense()
        if self.tilted:
            self.tilted_at = self.tilted_at or time.monotonic()
            sensed["orientation"] = np.array(TILTED)
        return sensed


@contextmanager
def walking(board: FakeBoard, robot: str, control_rate: float, params_file: str) -> Iterator[Client]:
    """Bridge and controller in front of a board, with the controller walking."""
    command = [
        "ros2", "launch", "fcnet_controller", f"{robot}.launch.py", "backend:=unitree",
        "network.target:=127.0.0.1", f"network.port:={board.address[1]}", "network.local_port:=0",
        f"control_rate:={control_rate}",
        *([f"params_file:={params_file}"] if params_file else []),
    ]  # fmt: skip
    with (
        own_domain() as domain,
        board,
        Client(domain, "wire_loop_client") as client,
        Process(command, domain, echo=sys.stderr),
    ):
        client.until_mode("passive", START_TIMEOUT)
        for request, mode in (("stand_up", "standing"), ("walk", "walking")):
            client.until(lambda name=request: client.call(f"controller/{name}").success, request, START_TIMEOUT)  # type: ignore[misc]
            client.until_mode(mode)
        yield client


def measure_rate(robot: Robot, duration: float, params_file: str) -> dict[str, float]:
    """Walk in MuJoCo behind the wire and look at when commands arrive at the board."""
    board = FakeBoard(GEN33, MujocoPhysics(MotorDrivenRobot(robot, named_terrain("flat"))))
    with walking(board, robot.name, 50.0, params_file) as client:
        gc.collect()
        gc.freeze()  # a collection of all that is here now would be a pause of the board
        board.commands.reset()
        lost = board.time_lost
        board.real_time_factor()
        client.drive(duration, vx=0.4, yaw_rate=0.3)
        arrivals, factor, lost = board.commands.arrivals, board.real_time_factor(), board.time_lost - lost
    period = 1e3 * np.diff(arrivals)
    return {
        "command rate [Hz]": (len(arrivals) - 1) / (arrivals[-1] - arrivals[0]),
        "period p50 [ms]": float(np.quantile(period, 0.5)),
        "period p99 [ms]": float(np.quantile(period, 0.99)),
        "period max [ms]": float(period.max()),
        "board's real-time factor": factor,
        "board's lost time [s]": lost,
    }


def measure_latency(robot: Robot, control_rate: float, nudges: int, params_file: str) -> dict[str, float]:
    """Tilt the trunk at random times, the robot at rest; take the time to the first response."""
    physics = TiltingJoints(robot)
    board = FakeBoard(GEN33, physics)
    rng = np.random.default_rng(0)
    latencies = []
    with walking(board, robot.name, control_rate, params_file):
        for _ in range(nudges):
            time.sleep(SETTLE + rng.uniform(0.0, 0.1))
            latencies.append(_latency(board, physics))
    known = 1e3 * np.array([latency for latency in latencies if latency is not None])
    if not known.size:
        sys.exit(f"wire_loop: no command responded to a tilt of the trunk within {RESPONSE_TIMEOUT:g} s")
    return {
        "responses": len(known),
        "without response": nudges - len(known),
        "latency p50 [ms]": float(np.quantile(known, 0.5)),
        "latency p90 [ms]": float(np.quantile(known, 0.9)),
        "latency max [ms]": float(known.max()),
    }


def _latency(board: FakeBoard, physics: TiltingJoints) -> float | None:
    """Seconds from the first tilted state to the first command that differs from the one before the tilt."""
    before = board.commands.recent[-1][1].position
    physics.tilted_at, physics.tilted = None, True
    time.sleep(RESPONSE_TIMEOUT)
    tilted_at, physics.tilted = physics.tilted_at, False
    if tilted_at is None:
        return None
    responses = (
        arrival - tilted_at
        for arrival, command in board.commands.recent
        if arrival > tilted_at and np.abs(command.position - before).max() > FIRST_CHANGE
    )
    return next(responses, None)


def show(title: str, figures: dict[str, float]) -> None:
    """Print figures, one a line."""
    print(title)
    for name, value in figures.items():
        print(f"  {name:<26} {value:>9.3f}")


def main() -> int:
    """Measure and print; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="aliengo", help="aliengo or a1")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of walking")
    parser.add_argument("--nudges", type=int, default=20, help="measurements of the latency at each rate, 0 for none")
    parser.add_argument("--params-file", default="", help="such as config/bridges/real_time.yaml")
    arguments = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    robot = load_robot(arguments.robot)
    rate = measure_rate(robot, arguments.duration, arguments.params_file)
    show(f"commands on the wire over {arguments.duration:g} s of walking (rate >= {LEAST_RATE:g}, "
         f"p99 < {LARGEST_P99:g})", rate)  # fmt: skip
    good = rate["command rate [Hz]"] >= LEAST_RATE and rate["period p99 [ms]"] < LARGEST_P99
    for control_rate in (50.0, 200.0) if arguments.nudges else ():
        latency = measure_latency(robot, control_rate, arguments.nudges, arguments.params_file)
        show(f"state on the wire to command on the wire at {control_rate:g} Hz (p50 < {LARGEST_P50:g})", latency)
        good = good and latency["latency p50 [ms]"] < LARGEST_P50
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
