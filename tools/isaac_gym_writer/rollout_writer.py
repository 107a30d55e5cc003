"""Records one robot of a running Isaac Gym simulation: to a file, over a live socket, or both.

Copy this one file next to legged_gym. It needs Python 3.7 or later and NumPy, and torch where the simulation's tensors
are; no ROS, nothing of the suite. With a legged_gym environment one line is enough, before the loop that calls
env.step():

    import rollout_writer
    recorder = rollout_writer.attach(env, "walk.rollout", robot="aliengo")          # to a file
    recorder = rollout_writer.attach(env, live="127.0.0.1:9870", pace=True)         # or to a running isaac_playback

and recorder.close() at the end. With Isaac Gym alone, make a GymRecorder. Every row holds the state BEFORE a step and
the action decided in it, which is what a comparison of policies needs.

Each row has been handed to the system when step() goes on, so that a crash of the simulation loses nothing, and a power
cut the last second. An error of the disk or the socket is reported once and never disturbs the simulation. The
format is described in docs/isaac_gym.md; all numbers are little endian:

    magic 4 B | length u32 | payload | CRC-32 u32 over everything before it

magic b"FCRH": JSON, what holds for all rows. magic b"FCRS", one row: step u64, time f64, episode u32, flags u32 (bit 0:
an episode begins), then float32: joint position n, joint velocity n, root state 13 (position, quaternion x y z w,
linear and angular velocity in the world), action n, position target n, command c. What is not known of action and
target is NaN.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Numbers = Any  # an array, a tensor or a list of numbers

VERSION = 1
FIRST = 1
COMMANDS = ("vx", "vy", "yaw_rate")  # the columns of legged_gym's env.commands; the fourth, a heading, is left out
SYNC_PERIOD = 1.0  # [s] a power cut loses at most so much
HEADER_PERIOD = 0.5  # [s] a listener that comes late waits at most so long


def frame(magic: bytes, payload: bytes) -> bytes:
    """One frame as bytes."""
    content = struct.pack("<4sI", magic, len(payload)) + payload
    return content + struct.pack("<I", zlib.crc32(content))


class RolloutWriter:
    """Turns rows into frames and sends them off. period: seconds of one control step; joint_names: in the order of
    the columns; commands: what the columns of a command are called (vx, vy, yaw_rate, height, roll, pitch, width,
    clearance, frequency; others are kept and ignored); live: "host:port" of a listener.
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
        header = frame(b"FCRH", json.dumps({**facts, **names}).encode())
        joints = len(names["joint_names"])
        self._sizes = (2 * joints + 13, 2 * joints, len(names["commands"]))
        self._unknown = np.full(joints, np.nan, dtype=np.float32)
        self._sinks: list[_File | _Live] = []
        if live is not None:
            self._sinks.append(_Live(live, header))
        if path is not None:
            self._sinks.append(_File(path, header))
        self._period = float(period)
        self._step = 0
        self._episode = 0
        self.skipped = 0  # rows that were not finite, as when a simulation blows up

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
        """Take one row: arrays of n, n, 13, n, n and c numbers; first: an episode begins here."""
        step, self._step = self._step, self._step + 1
        self._episode += int(first and step > 0)
        state = self._row(joint_position, joint_velocity, root_state)
        wanted = self._row(action, target)
        command = _numbers(command).astype(np.float32).ravel()
        found, expected = (state.size, wanted.size, command.size), self._sizes
        if found != expected:
            raise ValueError(f"a row has {found} numbers of state, action and target, command; expected {expected}")
        if not (np.isfinite(state).all() and np.isfinite(command).all()):
            self.skipped += 1
            return
        facts = struct.pack("<QdII", step, step * self._period, self._episode, FIRST if first else 0)
        content = frame(b"FCRS", facts + np.concatenate([state, wanted, command]).astype("<f4").tobytes())
        for sink in self._sinks:
            sink.send(content)

    def close(self) -> None:
        """Finish the file and close the socket."""
        while self._sinks:
            self._sinks.pop().close()

    def _row(self, *parts: Numbers) -> np.ndarray:
        known = [self._unknown if part is None else part for part in parts]
        return np.concatenate([_numbers(part).astype(np.float32).ravel() for part in known])


class LeggedGymRecorder:
    """Wraps env.step of a legged_gym environment until it is closed; see attach()."""

    def __init__(self, env: Any, writer: RolloutWriter, env_id: int, pace: bool) -> None:
        import torch  # not before Isaac Gym, which insists on being imported first

        self._env = env
        self._writer = writer
        self._row = env_id
        self._pace = pace
        self._join = torch.cat
        self._first = True
        self._deadline = time.perf_counter()
        control = env.cfg.control
        self._scale = control.action_scale if getattr(control, "control_type", "P") == "P" else None
        self._default = _numbers(env.default_dof_pos).ravel()
        normalization = getattr(env.cfg, "normalization", None)
        self._clip = getattr(normalization, "clip_actions", float("inf"))
        self._step = env.step
        env.step = self.step

    def step(self, actions: Any, *rest: Any, **named: Any) -> Any:
        """Record, then do what env.step does."""
        self._record(actions)
        if self._pace:
            self._wait()
        return self._step(actions, *rest, **named)

    def close(self) -> None:
        """Give env.step back and finish the recording."""
        self._env.step = self._step
        self._writer.close()

    def _record(self, actions: Any) -> None:
        """Write one row, by one copy from the simulation's device."""
        env, row = self._env, self._row
        parts = [env.dof_pos[row], env.dof_vel[row], env.root_states[row], actions[row], env.commands[row, :3]]
        parts = [part.detach().to(env.dof_pos.device).float() for part in [*parts, env.reset_buf[row : row + 1]]]
        values = _numbers(self._join(parts))
        joints = len(self._default)
        sizes = [joints, joints, 13, joints, len(COMMANDS)]
        position, velocity, root, action, command, done = np.split(values, np.cumsum(sizes))
        action = np.clip(action, -self._clip, self._clip)
        target = None if self._scale is None else self._default + self._scale * action
        first, self._first = self._first or bool(done[0]), False
        self._writer.write(position, velocity, root, action, target, command, first)

    def _wait(self) -> None:
        """Let no more simulated time pass than time does; time lost is not made up for."""
        now = time.perf_counter()
        self._deadline = max(self._deadline + float(self._env.dt), now - 0.1)
        time.sleep(max(self._deadline - now, 0.0))


def attach(
    env: Any, path: str | None = None, live: str | None = None, env_id: int = 0, robot: str = "", pace: bool = False
) -> LeggedGymRecorder:
    """Record every env.step() of a legged_gym environment from now on. env_id: which of its robots; pace: let the
    simulation run no faster than real time, for a live listener. Targets are recorded where control_type is "P".
    """
    writer = RolloutWriter(env.dt, env.dof_names, path, live, robot)
    try:
        return LeggedGymRecorder(env, writer, env_id, pace)
    except BaseException:
        writer.close()
        raise


class GymRecorder:
    """Records from Isaac Gym's tensor API alone. wrap_tensor: isaacgym.gymtorch.wrap_tensor; first_dof: the robot's
    first row in the DOF state tensor; actor: its row in the root state tensor (0 and 0 with one robot).
    """

    def __init__(
        self,
        gym: Any,
        sim: Any,
        wrap_tensor: Callable[[Any], Any],
        writer: RolloutWriter,
        joints: int,
        first_dof: int = 0,
        actor: int = 0,
    ) -> None:
        self._gym = gym
        self._sim = sim
        self._writer = writer
        self._dofs = slice(first_dof, first_dof + joints)
        self._actor = actor
        self._dof_state = wrap_tensor(gym.acquire_dof_state_tensor(sim))
        self._root_state = wrap_tensor(gym.acquire_actor_root_state_tensor(sim))

    def record(
        self, target: Numbers = None, action: Numbers = None, command: Numbers = (), first: bool = False
    ) -> None:
        """Record the state now and what was decided in it; call it once per control step, before simulating on."""
        self._gym.refresh_dof_state_tensor(self._sim)
        self._gym.refresh_actor_root_state_tensor(self._sim)
        dofs = _numbers(self._dof_state[self._dofs])
        root = _numbers(self._root_state[self._actor])
        self._writer.write(dofs[:, 0], dofs[:, 1], root, action, target, command, first)

    def close(self) -> None:
        """Finish the recording."""
        self._writer.close()


class _File:
    """A file that gets every frame at once."""

    def __init__(self, path: str, header: bytes) -> None:
        try:
            self._file: Any = open(str(path), "xb", buffering=0)  # noqa: SIM115, PTH123 - closed by close()
        except FileExistsError:
            raise FileExistsError(f"there is already a recording {path}; choose another name") from None
        self._path = path
        self._synced = time.monotonic()
        self.send(header)

    def send(self, content: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(content)
            if time.monotonic() - self._synced > SYNC_PERIOD:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            print(f"rollout_writer: {self._path} takes no more ({error}); what it has is whole", file=sys.stderr)
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Live:
    """Datagrams, one frame each, whether a program listens or not."""

    def __init__(self, address: str, header: bytes) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._header = header
        self._header_sent = float("-inf")
        self.unsent = 0

    def send(self, content: bytes) -> None:
        if time.monotonic() - self._header_sent > HEADER_PERIOD:
            self._header_sent = time.monotonic()
            self._send(self._header)
        self._send(content)

    def close(self) -> None:
        self._socket.close()

    def _send(self, content: bytes) -> None:
        try:
            self._socket.sendto(content, self._address)
        except OSError:
            self.unsent += 1


def _numbers(tensor: Any) -> np.ndarray:
    """A tensor on any device, or an array, as a NumPy array."""
    return tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)
