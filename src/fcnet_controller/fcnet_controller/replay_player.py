"""Plays a bag for the replay: `ros2 bag play` with /clock, and nothing under a name that could move a robot."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import tempfile
from pathlib import Path

import yaml

from fcnet_controller.replay_bag import NEEDED, STEPS, ReplayBag
from fcnet_controller.replay_subscription import QUEUE
from fcnet_core.remote_map import load_remote_map

RECORDED = "recorded"  # what targets and commands are played under
REPLAYED = "replay"  # what the replay publishes its own targets under
TARGETS = "joint_trajectory"
MODE = "controller/mode"
TO_LOOK_AT = ("odom", MODE)
DELAY = 4.0  # [s] in which the player is discovered: Fast DDS repeats a lost announcement after 3 s
LAST_WORDS = 10_000  # [ms] for the last messages to be received
END = 5.0  # [s] for the player to end when it is told to
PR_SET_PDEATHSIG = 1  # of Linux, see man 2 prctl
LIBC = ctypes.CDLL(None)


def recorded(topic: str) -> str:
    """The relative name under which a recorded topic is played."""
    return topic if topic in (*NEEDED, *TO_LOOK_AT) else f"{RECORDED}/{topic}"


def played_topics(bag: ReplayBag) -> list[str]:
    """The relative names, in the bag, of what is played of it."""
    commands = [topic for source in load_remote_map().sources for topic in (source.velocity, source.pose)]
    return [topic for topic in (*NEEDED, *TO_LOOK_AT, TARGETS, STEPS, *commands) if topic in bag.topics]


class ReplayPlayer:
    """A process that plays the bag; messages wait for slow listeners. It ends with this one, however that ends."""

    def __init__(self, bag: ReplayBag, rate: float, loop: bool) -> None:
        topics = played_topics(bag)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False, encoding="utf-8") as file:
            profile = {"reliability": "reliable", "history": "keep_last", "depth": QUEUE}
            streams = [topic for topic in topics if topic != MODE]  # the mode is latched, and stays so
            yaml.safe_dump({bag.namespace + topic: dict(profile) for topic in streams}, file)
        self._profiles = Path(file.name)
        names = [(bag.namespace + topic, bag.namespace + recorded(topic)) for topic in topics]
        command = ["ros2", "bag", "play", str(bag.path), "--rate", str(rate), "--clock", "--delay", str(DELAY)]
        command += ["--disable-keyboard-controls", "--wait-for-all-acked", str(LAST_WORDS)]
        command += ["--loop"] if loop else []
        command += ["--qos-profile-overrides-path", str(self._profiles), "--topics", *(name for name, _ in names)]
        command += ["--remap", *(f"{name}:={other}" for name, other in names if name != other)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent)

    @property
    def exit_code(self) -> int | None:
        """None while it plays."""
        return self._process.poll()

    def stop(self) -> None:
        """End it, if it still plays."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profiles.unlink(missing_ok=True)


def _end_with_parent() -> None:
    """Let the kernel end this process when the one that started it has ended, be it by kill -9."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
