"""Records one robot of a running Isaac Gym simulation: to a file, over a live socket, or both.

Copy this one file next to legged_gym. It needs Python 3.7 or later, NumPy and the simulation's torch; no ROS and no
other file of the suite. With a legged_gym environment one line is enough, before the loop that calls
env.step():

    import rollout_writer
    recorder = rollout_writer.attach(env, "walk.rollout", robot="aliengo")          # to a file
    recorder = rollout_writer.attach(env, live="127.0.0.1:9870", pace=True)         # or to a running isaac_playback

and recorder.close() at the end. With Isaac Gym alone, give its tensors to RolloutWriter.write. Every row holds the
state BEFORE a step and the action decided in it, which is what a comparison of policies needs.

Each row is written before step() continues, so a crash of the simulation loses no row, and a power cut the last second.
Errors of the disk or the socket never stop the simulation. docs/isaac_gym.md of the suite
describes the format.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

Numbers = Any  # an array, a tensor or a list of numbers

VERSION = 1
FIRST = 1  # bit of a row's flags
COMMANDS = ("vx", "vy", "yaw_rate")  # the columns of legged_gym's env.commands; the fourth, a heading, is left out
SYNC_PERIOD = 1.0  # [s] a power cut loses at most so much
HEADER_PERIOD = 0.5  # [s] a listener that comes late waits at most so long


def frame(magic: bytes, payload: bytes) -> bytes:
    """One frame: magic, length, payload, and the CRC-32 of these, little endian."""
    content = struct.pack("<4sI", magic, len(payload)) + payload
    return content + struct.pack("<I", zlib.crc32(content))


class RolloutWriter:
    """Writes rows to a new file at `path` and sends them to `live`, "host:port", whether anything listens or not.

    period: seconds of one control step; joint_names: in the order of the columns; commands: what the columns of a
    command are called (vx, vy, yaw_rate, height, roll, pitch, width, clearance, frequency; others are kept and
    ignored). Raises FileExistsError rather than overwrite a recording. skipped: rows that were not finite.
    """

    def __init__(
        self,
        period: float,
        joint_names: Sequence[str],
        path: str | None = None,
        live: str | None = None,
        robot: str = "",
        commands: Sequence[str] = COMMANDS,
    ) -> None:
        facts = {"format": "fcnet rollout", "version": VERSION, "robot": robot, "period": float(period)}
        names = {"joint_names": list(joint_names), "commands": list(commands)}
        self._header = frame(b"FCRH", json.dumps({**facts, **names}).encode())
        joints = len(joint_names)
        self._sizes = (2 * joints + 13, 2 * joints, len(commands))
        self._unknown = np.full(joints, np.nan)
        self._period = float(period)
        self._step = self._episode = self.skipped = 0
        self._cut = False  # the row before was left out
        self._header_sent = float("-inf")
        self._synced = time.monotonic()
        host, _, port = (live or ":0").rpartition(":")
        self._listener = (host, int(port))
        self._path, self._file = path, None  # type: Any, Any
        if path is not None:  # closed by close()
            self._file = open(str(path), "xb", buffering=0)  # noqa: PTH123, SIM115
        self._store(self._header)
        self._socket = None if live is None else socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def write(
        self,
        joint_position: Numbers,
        joint_velocity: Numbers,
        root_state: Numbers,
        action: Numbers = None,
        target: Numbers = None,
        command: Numbers = (),
        first: bool = False,
    ) -> None:
        """Take one row: arrays of n, n, 13, n, n and c numbers; first: an episode starts here.

        root_state: position, quaternion x y z w, linear and angular velocity in the world. What is None is unknown.
        """
        step, self._step = self._step, self._step + 1
        state = _row(joint_position, joint_velocity, root_state)
        wanted = _row(*(self._unknown if part is None else part for part in (action, target)))
        asked = _row(command)
        found, expected = (state.size, wanted.size, asked.size), self._sizes
        if found != expected:
            raise ValueError(f"a row has {found} numbers of state, action and target, command; expected {expected}")
        if not (np.isfinite(state).all() and np.isfinite(asked).all()):  # as when a simulation blows up
            self.skipped += 1
            self._cut = True
            return
        first, self._cut = first or self._cut, False
        self._episode += int(first and step > 0)
        facts = struct.pack("<QdII", step, step * self._period, self._episode, FIRST if first else 0)
        content = frame(b"FCRS", facts + np.concatenate([state, wanted, asked]).tobytes())
        if self._socket is not None:
            if time.monotonic() - self._header_sent > HEADER_PERIOD:
                self._header_sent = time.monotonic()
                self._send(self._header)
            self._send(content)
        self._store(content)

    def close(self) -> None:
        """Finish the file and close the socket."""
        for sink in (self._socket, self._file):
            if sink is not None:
                sink.close()
        self._socket = self._file = None

    def _send(self, content: bytes) -> None:
        with contextlib.suppress(OSError):  # a listener sees by the rows' numbers what it has lost
            self._socket.sendto(content, socket.MSG_DONTWAIT, self._listener)

    def _store(self, content: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(content)
            if time.monotonic() - self._synced > SYNC_PERIOD:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            print(f"rollout_writer: {self._path} takes no more ({error}); what it has is whole", file=sys.stderr)
            self._file.close()
            self._file = None


class LeggedGymRecorder:
    """Records every env.step() of a legged_gym environment from now on, until it is closed.

    env_id: which of its robots; pace: let the simulation run no faster than real time, for a live listener; others as
    for RolloutWriter. Targets are recorded where control_type is "P".
    """

    def __init__(
        self,
        env: Any,
        path: str | None = None,
        live: str | None = None,
        env_id: int = 0,
        robot: str = "",
        pace: bool = False,
    ) -> None:
        import torch  # not before Isaac Gym, which insists on being imported first

        self._join = torch.cat
        self._env, self._robot, self._pace = env, env_id, pace
        self._first = True
        self._deadline = time.perf_counter()
        control = env.cfg.control
        self._scale = control.action_scale if getattr(control, "control_type", "P") == "P" else None
        self._default = _numbers(env.default_dof_pos).ravel()
        self._clip = getattr(getattr(env.cfg, "normalization", None), "clip_actions", float("inf"))
        self._writer = RolloutWriter(env.dt, env.dof_names, path, live, robot)
        self._step = env.step
        env.step = self.step

    def step(self, actions: Any, *rest: Any, **named: Any) -> Any:
        """Record, then do what env.step does."""
        self._record(actions)
        if self._pace:  # time lost is not made up for
            now = time.perf_counter()
            self._deadline = max(self._deadline + float(self._env.dt), now - 0.1)
            time.sleep(max(self._deadline - now, 0.0))
        return self._step(actions, *rest, **named)

    def close(self) -> None:
        """Give env.step back and finish the recording."""
        self._env.step = self._step
        self._writer.close()

    def _record(self, actions: Any) -> None:
        """Write one row, by one copy from the simulation's device."""
        env, row = self._env, self._robot
        parts = [env.dof_pos[row], env.dof_vel[row], env.root_states[row], actions[row], env.commands[row, :3]]
        parts = [part.detach().to(env.dof_pos.device).float() for part in [*parts, env.reset_buf[row : row + 1]]]
        joints = len(self._default)
        ends = np.cumsum([joints, joints, 13, joints, len(COMMANDS)])
        position, velocity, root, action, command, done = np.split(_numbers(self._join(parts)), ends)
        action = np.clip(action, -self._clip, self._clip)
        target = None if self._scale is None else self._default + self._scale * action
        first, self._first = self._first or bool(done[0]), False
        self._writer.write(position, velocity, root, action, target, command, first)


attach = LeggedGymRecorder


def _row(*parts: Numbers) -> np.ndarray:
    return np.concatenate([_numbers(part).astype("<f4").ravel() for part in parts])


def _numbers(tensor: Any) -> np.ndarray:
    """A tensor on any device, or an array, as a NumPy array."""
    return tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)
