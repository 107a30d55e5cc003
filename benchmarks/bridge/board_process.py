"""A motor board with a robot behind it, in a process of its own: neither the threads of the program that measures nor,
where SCHED_FIFO is permitted, a busy computer hold it up. It keeps every command with the kernel's time of arrival.
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
import numpy.typing as npt

from fcnet_core.robot import Robot, load_robot
from quadruped_sim.physics.live_robot import MotorDrivenRobot
from quadruped_sim.physics.placement import StartPose
from quadruped_sim.physics.terrain import named_terrain
from unitree_lowlevel.codec import GEN33, PERIOD, POSITION_STOP, SERVO, LowState, encode_state
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.command_log import CommandLog
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.fake_board.physics import BoardPhysics, JointPhysics
from unitree_lowlevel.network import Address

Array = npt.NDArray[np.float64]
PRIORITY = 60  # SCHED_FIFO, above the bridge's 40
KEPT = 60_000  # commands and states that are kept until they are taken, two minutes
TILTED = (0.0, 0.1736, 0.0, 0.9848)  # 20 degrees of pitch, to which a policy must respond
NOISE = 0.1  # of the sensors: sensors that never change are a fault
MILLISECONDS = 1000.0


@dataclass(frozen=True)
class WireLog:
    """What has reached the board's socket since the last call, oldest first, and the states that have left.

    arrival (n,) [s, time.monotonic, the kernel's]; stiff (n, 12): which joints hold a position; position [rad],
    stiffness [Nm/rad], damping [Nms/rad], torque [Nm], each (n, 12). bad: refused datagrams by kind. sensed (m,) [s]:
    when a state was made of sensed_position and sensed_velocity, each (m, 12).
    """

    arrival: Array
    stiff: npt.NDArray[np.bool_]
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
        """(n,) of the joints that hold a position [Nm/rad]."""
        return np.where(self.stiff, self.stiffness, 0.0).max(axis=1, initial=0.0)


class BoardProcess:
    """The board of a robot called `robot`, with "mujoco" or "joints" (without weight) behind it.

    faults, restart, close_port: see FakeBoard. client: where its states go.
    """

    def __init__(self, robot: str, physics: str = "mujoco", priority: int = PRIORITY) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, robot, physics, priority), daemon=True)
        self._lock = threading.Lock()
        self._faults = BoardFaults()
        self._process.start()
        theirs.close()
        self._address: Address = self._connection.recv()

    def __enter__(self) -> BoardProcess:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._address

    def start(self) -> None:
        """Nothing: it runs from the beginning."""

    def stop(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(5.0)
        self._process.kill()

    @property
    def faults(self) -> BoardFaults:
        """The faults of board and line."""
        return self._faults

    @faults.setter
    def faults(self, faults: BoardFaults) -> None:
        self._faults = faults
        self._call("set_faults", faults)

    @property
    def client(self) -> Address | None:
        """Where its states go."""
        return self._call("client")  # type: ignore[no-any-return]

    def take(self) -> WireLog:
        """What has come since the last call."""
        return self._call("take")  # type: ignore[no-any-return]

    def time_lost(self) -> float:
        """Seconds in which the board stood still because this machine was busy elsewhere."""
        return self._call("time_lost")  # type: ignore[no-any-return]

    def restart(self) -> None:
        """See FakeBoard."""
        self._call("restart")

    def close_port(self, duration: float) -> None:
        """See FakeBoard."""
        self._call("close_port", duration)

    def reset_body(self, start: StartPose = "lying") -> None:
        """Put the robot where it started, "lying" or "on_back"."""
        self._call("reset_body", start)

    def tilt(self, tilted: bool) -> float | None:
        """Let the trunk of weightless joints seem tilted, or not; returns when the first such state left [s], if it
        has, of the time before this call.
        """
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
    """Keeps what the sensors said, and tilts them."""

    def __init__(self, physics: BoardPhysics) -> None:
        self.robot = physics.robot
        self.sensed: deque[tuple[float, Array, Array]] = deque(maxlen=KEPT)
        self.cycles = 0
        self.tilted = False
        self.tilted_at: float | None = None
        self.drive, self.block = physics.drive, physics.block
        self._physics = physics

    def advance(self, duration: float) -> None:
        self.cycles += 1
        self._physics.advance(duration)

    def sense(self) -> dict[str, Array]:
        sensed, now = self._physics.sense(), time.monotonic()
        self.sensed.append((now, sensed["position"].copy(), sensed["velocity"].copy()))
        if self.tilted:
            self.tilted_at = self.tilted_at or now
            sensed["orientation"] = np.array(TILTED)
        return sensed


class _UnlockedMujoco:
    """The simulated robot as BoardPhysics, used by one thread."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.body = MotorDrivenRobot(robot, named_terrain("flat"), timestep=PERIOD)
        self.drive, self.block = self.body.drive, self.body.block

    def advance(self, duration: float) -> None:
        self.body.advance(round(duration / PERIOD))

    def sense(self) -> dict[str, Array]:
        return {**vars(self.body.read_sensors()), "foot_force": self.body.foot_force()}


class _Server:
    """What BoardProcess may call, in the board's process."""

    def __init__(self, robot: Robot, physics: str) -> None:
        self._robot = robot
        self._mujoco = _UnlockedMujoco(robot) if physics == "mujoco" else None
        self._physics = _ObservedPhysics(self._mujoco or JointPhysics(robot, noise=NOISE))
        self.board = FakeBoard(GEN33, self._physics)
        self.board.commands = CommandLog(keep=KEPT)

    def set_faults(self, faults: BoardFaults) -> None:
        self.board.faults = faults

    def client(self) -> Address | None:
        return self.board.client

    def time_lost(self) -> float:
        return self.board.time_lost

    def restart(self) -> None:
        self._physics.cycles = 0
        self.board.restart()

    def close_port(self, duration: float) -> None:
        self.board.close_port(duration)

    def reset_body(self, start: StartPose) -> None:
        if self._mujoco is not None:
            self._mujoco.body.start = start
            self._mujoco.body.reset()

    def tilt(self, tilted: bool) -> float | None:
        before, self._physics.tilted, self._physics.tilted_at = self._physics.tilted_at, tilted, None
        return before

    def take(self) -> WireLog:
        log, sensed = self.board.commands, list(self._physics.sensed)
        commands, bad = log.recent, dict(log.bad)
        log.reset()
        self._physics.sensed.clear()

        def column(name: str) -> Array:
            return np.array([getattr(command, name) for _arrival, command in commands]).reshape(-1, 12)

        position, stiffness = column("position"), column("stiffness")
        stiff = (column("mode") == SERVO) & (stiffness > 0.0) & (np.abs(position) < POSITION_STOP)
        return WireLog(
            arrival=np.array([arrival for arrival, _command in commands]),
            stiff=stiff,
            position=position,
            stiffness=stiffness,
            damping=column("damping"),
            torque=column("torque"),
            bad=bad,
            sensed=np.array([row[0] for row in sensed]),
            sensed_position=np.array([row[1] for row in sensed]).reshape(-1, 12),
            sensed_velocity=np.array([row[2] for row in sensed]).reshape(-1, 12),
        )

    def inject(self, kind: str, count: int, seed: int) -> None:
        client = self.board.client
        if client is None:
            return
        rng = np.random.default_rng(seed)
        for number in range(count):
            self.board.send_raw(self._datagram(kind, number, rng), client)

    def _datagram(self, kind: str, number: int, rng: np.random.Generator) -> bytes:
        if kind == "random":
            return rng.bytes(int(rng.integers(1, 1500)))
        sensors = self._physics.sense()
        tick = int(self._physics.cycles * PERIOD * MILLISECONDS)
        if kind == "old":
            tick -= 2000 - number
            sensors["position"] = sensors["position"] + rng.uniform(-0.3, 0.3, 12)
        elif kind == "future":
            tick += 100_000 + number
        elif kind == "not_finite":
            sensors["velocity"][int(rng.integers(12))] = np.nan
        mode, still = np.full(12, SERVO, dtype=np.uint8), bytes(40)
        state = LowState(
            mode=mode, temperature=np.full(12, 30.0), imu_temperature=30.0, tick=tick % 2**32, remote=still,
            identity=(0, 0), **sensors,
        )  # fmt: skip
        datagram = bytearray(encode_state(GEN33, state))
        if kind == "corrupted":
            datagram[int(rng.integers(len(datagram)))] ^= 1 << int(rng.integers(8))
        return bytes(datagram[:100] if kind == "short" else datagram + bytes(1000) if kind == "long" else datagram)


def _serve(connection: Connection, robot: str, physics: str, priority: int) -> None:
    """Be the board until the other end of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = _Server(load_robot(robot), physics)
    connection.send(server.board.address)
    if priority:
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    gc.collect()
    gc.freeze()  # a collection of all that is here now would be a pause of the board
    with suppress(EOFError, ConnectionError):
        while True:
            server.board.cycle()
            while connection.poll():
                name, arguments = connection.recv()
                try:
                    result = getattr(server, name)(*arguments)
                except Exception as error:  # noqa: BLE001 raised where it was called
                    result = error
                connection.send(result)
