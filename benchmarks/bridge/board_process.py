"""A motor board with a robot behind it, in a process of its own. The measuring program's threads do not delay it; if
SCHED_FIFO is permitted, neither does a busy computer. It keeps every command with the kernel's time of arrival.
"""

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from distortions import CHANGES, Sent

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.physics.live_robot import MotorDrivenRobot
from quadruped_sim.physics.placement import StartPose
from quadruped_sim.physics.terrain import named_terrain
from sim_bridge.mujoco_board import MujocoPhysics
from unitree_lowlevel.codec import GEN33, MOTORS, PERIOD, POSITION_STOP, SERVO, LowState, decode_state
from unitree_lowlevel.fake_board.board import CommandLog, FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.fake_board.physics import BoardPhysics, JointPhysics
from unitree_lowlevel.network import Address

PRIORITY = 60  # SCHED_FIFO, above the bridge's 40
KEPT = 60_000  # commands and states that are kept until they are taken, two minutes
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
    """The board of a robot called `robot`, in a process that starts immediately. Its other methods and
    attributes are those of Board.

    physics: behind the board, "mujoco" or "joints" (without weight).
    """

    def __init__(self, robot: str, physics: str = "mujoco") -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, robot, physics), daemon=True)
        self._lock = threading.Lock()
        self._process.start()
        theirs.close()
        self.address: Address = self._connection.recv()

    def stop(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(5.0)
        self._process.kill()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that calls a method of Board in the process, or returns the value of an attribute."""

        def call(*arguments: Any) -> Any:
            with self._lock:
                self._connection.send((name, arguments))
                result = self._connection.recv()
            if isinstance(result, Exception):
                raise result
            return result

        return call


class Board(FakeBoard):
    """The board in its process. It keeps the measured states, and distorts what it sends on request."""

    def __init__(self, robot: Robot, physics: str) -> None:
        self._body: MotorDrivenRobot | None = None
        behind: BoardPhysics = JointPhysics(robot, noise=NOISE)
        if physics == "mujoco":
            self._body = MotorDrivenRobot(robot, named_terrain("flat"), timestep=PERIOD)
            behind = MujocoPhysics(self._body)
        super().__init__(GEN33, behind)
        self.commands = CommandLog(keep=KEPT)
        self._sensed: deque[tuple[float, Array, Array]] = deque(maxlen=KEPT)
        self._began: float | None = None  # of the distortion, and its first state
        self._first: LowState | None = None
        self.distort("")
        self._off_until = 0.0

    def distort(self, name: str, seed: int = 0) -> float | None:
        """Begin a distortion of CHANGES, or end it (""); return when the previous one began on the wire [s]."""
        before, self._change = self._began, CHANGES.get(name)
        self._began, self._first, self._changed = None, None, 0
        self._held, self._fault_rng = list[bytes](), np.random.default_rng(seed)
        return before

    def reboot(self, silence: float) -> None:
        """Switch the board off for `silence` [s]: no states, motors off, then a tick from 0."""
        self.restart()
        self._off_until = time.monotonic() + silence

    def _receive(self, now: float) -> None:
        super()._receive(now)
        if now < self._off_until:
            self._restart = True  # commands have no effect yet

    def _deliver(self, now: float) -> None:
        if self._change is None:
            super()._deliver(now)
            return
        for datagram, client in self._departing.take(now):
            state = decode_state(GEN33, datagram)
            self._began, self._first = self._began or now, self._first or state
            sent = Sent(datagram, state, self._first, self._changed, self._held, self._fault_rng)
            self._changed += 1
            for other in self._change(sent):
                with suppress(OSError):  # the client has gone
                    self._socket.sendto(other, client)

    def _state(self) -> LowState:
        state = super()._state()
        self._sensed.append((time.monotonic(), state.position.copy(), state.velocity.copy()))
        return state

    def set_faults(self, faults: BoardFaults) -> None:
        """Set the faults of board and line."""
        self.faults = faults

    def reset_body(self, start: StartPose = "lying") -> None:
        """Put the robot where it started, "lying" or "on_back"."""
        if self._body is not None:
            self._body.start = start
            self._body.reset()

    def take(self) -> WireLog:
        """Return all commands and states since the last call."""
        sensed, commands, bad = list(self._sensed), self.commands.recent, dict(self.commands.bad)
        self.commands.reset()
        self._sensed.clear()

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


def _serve(connection: Connection, robot: str, physics: str) -> None:
    """Run the board until the other end of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    board = Board(load_robot(robot), physics)
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
                    found = getattr(board, name)
                    result = found(*arguments) if callable(found) else found
                except Exception as error:  # noqa: BLE001 raised where it was called
                    result = error
                connection.send(result)
