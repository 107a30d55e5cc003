"""A motor board with a robot behind it, in a process of its own. The measuring program's threads do not delay it; if
SCHED_FIFO is permitted, neither does a busy computer. It keeps every command with the kernel's time of arrival.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.physics.live_robot import MotorDrivenRobot
from quadruped_sim.physics.placement import StartPose
from quadruped_sim.physics.terrain import named_terrain
from sim_bridge.mujoco_board import MujocoPhysics
from unitree_lowlevel.codec import GEN33, MOTORS, PERIOD, POSITION_STOP, SERVO, LowState, encode_state
from unitree_lowlevel.fake_board.board import MILLISECONDS, CommandLog, FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.fake_board.physics import BoardPhysics, JointPhysics
from unitree_lowlevel.network import Address

PRIORITY = 60  # SCHED_FIFO, above the bridge's 40
KEPT = 60_000  # commands and states that are kept until they are taken, two minutes
TILTED = (0.0, 0.1736, 0.0, 0.9848)  # 20 degrees of pitch, to which a policy must respond
NOISE = 0.1  # of the sensors: sensors that never change are a fault


@dataclass(frozen=True)
class WireLog:
    """Commands that reached the board's socket, oldest first, and the states that left it.

    arrival (n,) [s, time.monotonic, the kernel's]; stiff (n, 12): which joints hold a position; position [rad],
    stiffness [Nm/rad], damping [Nms/rad], torque [Nm], each (n, 12). bad: rejected datagrams by kind. sensed (m,) [s]:
    times of the states of sensed_position and sensed_velocity, each (m, 12).
    """

    arrival: Array
    stiff: Mask
    position: Array
    stiffness: Array
    damping: Array
    torque: Array
    bad: dict[str, int]
    sensed: Array
    sensed_position: Array
    sensed_velocity: Array

    @property
    def largest_stiffness(self) -> Array:
        """Maximum (n,) over the joints that hold a position [Nm/rad]."""
        return np.where(self.stiff, self.stiffness, 0.0).max(axis=1, initial=0.0)


class BoardProcess:
    """The board of a robot called `robot`, with "mujoco" or "joints" (without weight) behind it; it starts immediately.

    restart: see FakeBoard.
    """

    def __init__(self, robot: str, physics: str = "mujoco") -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, robot, physics), daemon=True)
        self._lock = threading.Lock()
        self._process.start()
        theirs.close()
        self.address: Address = self._connection.recv()

    def __enter__(self) -> BoardProcess:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(5.0)
        self._process.kill()

    def set_faults(self, faults: BoardFaults) -> None:
        """Set the faults of board and line."""
        self._call("set_faults", faults)

    def client(self) -> Address | None:
        """Return the address to which states are sent."""
        return self._call("get", "client")  # type: ignore[no-any-return]

    def take(self) -> WireLog:
        """Return all commands and states since the last call."""
        return self._call("take")  # type: ignore[no-any-return]

    def time_lost(self) -> float:
        """Return the seconds in which the board stood still because this machine was busy elsewhere."""
        return self._call("get", "time_lost")  # type: ignore[no-any-return]

    def restart(self) -> None:
        self._call("restart")

    def reset_body(self, start: StartPose = "lying") -> None:
        """Put the robot where it started, "lying" or "on_back"."""
        self._call("reset_body", start)

    def tilt(self, tilted: bool) -> float | None:
        """Start or stop reporting a tilted trunk; return when the first tilted state before this call left [s]."""
        return self._call("tilt", tilted)  # type: ignore[no-any-return]

    def inject(self, kind: str, count: int, seed: int) -> None:
        """Send `count` datagrams of a kind from the board's own port: "old", "future", "corrupted", "not_finite",
        "short", "long", "random".
        """
        self._call("inject", kind, count, seed)

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            self._connection.send((name, arguments))
            result = self._connection.recv()
        if isinstance(result, Exception):
            raise result
        return result


class _ObservedPhysics:
    """Keeps the measured states, and tilts them on request."""

    def __init__(self, physics: BoardPhysics) -> None:
        self.robot = physics.robot
        self.sensed: deque[tuple[float, Array, Array]] = deque(maxlen=KEPT)
        self.tilted = False
        self.tilted_at: float | None = None
        self.drive, self.block, self.advance = physics.drive, physics.block, physics.advance
        self._physics = physics

    def sense(self) -> dict[str, Array]:
        sensed, now = self._physics.sense(), time.monotonic()
        self.sensed.append((now, sensed["position"].copy(), sensed["velocity"].copy()))
        if self.tilted:
            self.tilted_at = self.tilted_at or now
            sensed["orientation"] = np.array(TILTED)
        return sensed


class _Board(FakeBoard):
    """The board in its process, with the methods that BoardProcess calls."""

    def __init__(self, robot: Robot, physics: str) -> None:
        self._body: MotorDrivenRobot | None = None
        behind: BoardPhysics = JointPhysics(robot, noise=NOISE)
        if physics == "mujoco":
            self._body = MotorDrivenRobot(robot, named_terrain("flat"), timestep=PERIOD)
            behind = MujocoPhysics(self._body)
        self._observed = _ObservedPhysics(behind)
        super().__init__(GEN33, self._observed)
        self.commands = CommandLog(keep=KEPT)

    def get(self, name: str) -> Any:
        return getattr(self, name)

    def set_faults(self, faults: BoardFaults) -> None:
        self.faults = faults

    def reset_body(self, start: StartPose) -> None:
        if self._body is not None:
            self._body.start = start
            self._body.reset()

    def tilt(self, tilted: bool) -> float | None:
        before, self._observed.tilted, self._observed.tilted_at = self._observed.tilted_at, tilted, None
        return before

    def take(self) -> WireLog:
        sensed, commands, bad = list(self._observed.sensed), self.commands.recent, dict(self.commands.bad)
        self.commands.reset()
        self._observed.sensed.clear()

        def column(name: str) -> Array:
            return np.array([getattr(command, name) for _arrival, command in commands]).reshape(-1, MOTORS)

        position, stiffness = column("position"), column("stiffness")
        return WireLog(
            arrival=np.array([arrival for arrival, _command in commands]),
            stiff=(column("mode") == SERVO) & (stiffness > 0.0) & (np.abs(position) < POSITION_STOP),
            position=position,
            stiffness=stiffness,
            damping=column("damping"),
            torque=column("torque"),
            bad=bad,
            sensed=np.array([row[0] for row in sensed]),
            sensed_position=np.array([row[1] for row in sensed]).reshape(-1, MOTORS),
            sensed_velocity=np.array([row[2] for row in sensed]).reshape(-1, MOTORS),
        )

    def inject(self, kind: str, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        for number in range(count if self.client else 0):
            assert self.client is not None
            self.send_raw(self._datagram(kind, number, rng), self.client)

    def _datagram(self, kind: str, number: int, rng: np.random.Generator) -> bytes:
        if kind == "random":
            return rng.bytes(int(rng.integers(1, 1500)))
        sensors = self._observed.sense()
        tick = int(self._cycles * PERIOD * MILLISECONDS)
        if kind == "old":
            tick -= 2000 - number
            sensors["position"] = sensors["position"] + rng.uniform(-0.3, 0.3, MOTORS)
        elif kind == "future":
            tick += 100_000 + number
        elif kind == "not_finite":
            sensors["velocity"][int(rng.integers(MOTORS))] = np.nan
        mode, still = np.full(MOTORS, SERVO, dtype=np.uint8), bytes(40)
        state = LowState(
            mode=mode, temperature=np.full(MOTORS, 30.0), imu_temperature=30.0, tick=tick % 2**32, remote=still,
            identity=(0, 0), **sensors,
        )  # fmt: skip
        datagram = bytearray(encode_state(GEN33, state))
        if kind == "corrupted":
            datagram[int(rng.integers(len(datagram)))] ^= 1 << int(rng.integers(8))
        return bytes(datagram[:100] if kind == "short" else datagram + bytes(1000) if kind == "long" else datagram)


def _serve(connection: Connection, robot: str, physics: str) -> None:
    """Run the board until the other end of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    board = _Board(load_robot(robot), physics)
    connection.send(board.address)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    gc.collect()
    gc.freeze()  # a collection of all that is here now would be a pause of the board
    with suppress(EOFError, ConnectionError):
        while True:
            board.cycle()
            while connection.poll():
                name, arguments = connection.recv()
                try:
                    result = getattr(board, name)(*arguments)
                except Exception as error:  # noqa: BLE001 raised where it was called
                    result = error
                connection.send(result)
