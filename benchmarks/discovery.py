"""Measures how soon the suite's programs find each other: real processes are ended and started again, one at a time.

A start's time is that of its slowest connection, on either side: from the creation of the later one of two endpoints
(a publisher and a subscription, a client and a service), or of the recorder's node, to their match. Each program runs
with a thread that looks at its endpoints every few milliseconds. The groups are those that launch files start: a robot
on a desk with all that records, watches and drives it, a simulated robot, a playback and a replay. Run it in a shell
after `. env.sh`, on an otherwise idle machine; 100 starts take about 8 minutes:
    python benchmarks/discovery.py --starts 100
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pty
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core import names
from fcnet_core.robot import load_robot
from fcnet_ros.testing import Process, own_domain, wait_until
from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.physics import JointPhysics

PROBE = "--probe"
LOOK_PERIOD = 0.004  # [s] between two looks at a program's endpoints
SETTLED = 3.0  # [s] without a change after which everything has found everything
LATEST = 15.0  # [s] after which a start counts as one that has not found everything
LONGEST_PAUSE = 0.6  # [s] between the end of a program and its next start
AIM, WANTED = 1.0, 0.99  # [s] within which so many of the starts find everything
BAG = Path(__file__).parent.parent / "docs" / "examples" / "aliengo_walk"
EVERYWHERE = ("/parameter_events", names.ROSOUT.name)  # of every node, and nothing waits for them
OPPOSITE = {"publisher": "subscription", "subscription": "publisher", "client": "service", "service": "client"}


class Probe:
    """Notes, in a file, when a program creates its node and endpoints, and whenever their number of matches changes."""

    def __init__(self, log: str) -> None:
        self._log = Path(log).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 open as long as the program runs
        self._matches: dict[str, Callable[[], int]] = {}
        self._known: dict[str, int] = {}
        from rclpy.node import Node

        before = Node.__init__

        def create(node: Node, *arguments: Any, **options: Any) -> None:
            before(node, *arguments, **options)
            self._note(event="node")

        Node.__init__ = create  # type: ignore[method-assign,assignment]
        for kind, count in {
            "publisher": lambda endpoint: endpoint.get_subscription_count(),
            "subscription": lambda endpoint: endpoint.get_publisher_count(),
            "client": lambda endpoint: int(endpoint.service_is_ready()),
            "service": None,
        }.items():
            self._follow(Node, kind, count)
        threading.Thread(target=self._look, daemon=True).start()

    def _follow(self, node_class: type, kind: str, count: Callable[[Any], int] | None) -> None:
        method = f"create_{kind}"
        create = getattr(node_class, method)

        def create_and_note(node: Any, *arguments: Any, **options: Any) -> Any:
            endpoint = create(node, *arguments, **options)
            name = endpoint.srv_name if kind in ("client", "service") else endpoint.topic_name
            name = node.resolve_service_name(name) if kind in ("client", "service") else name
            if name not in EVERYWHERE:
                number = sum(key.startswith(f"{kind} {name} ") for key in self._matches)
                self._note(event="created", key=(key := f"{kind} {name} {number}"))
                self._matches[key] = partial(count, endpoint) if count else lambda: 0
            return endpoint

        setattr(node_class, method, create_and_note)

    def _look(self) -> None:
        while True:
            for key, count in list(self._matches.items()):
                matches = -1  # destroyed
                with suppress(Exception):
                    matches = count()
                if matches != self._known.get(key, 0):
                    self._known[key] = matches
                    self._note(event="matched", key=key, matches=matches)
            time.sleep(LOOK_PERIOD)

    def _note(self, **what: Any) -> None:
        self._log.write(json.dumps({"time": time.monotonic(), **what}) + "\n")


def run_probed(log: str, module: str, *arguments: str) -> int:
    """Run the program of a module, `module` or `module=ARGUMENT`, with a probe in it."""
    name, _, argument = module.partition("=")
    main = importlib.import_module(name).main
    if name.endswith("teleop_keyboard"):
        _, terminal = pty.openpty()
        os.dup2(terminal, 0)
    Probe(log)
    sys.argv = [name, *arguments]
    return int(main(argument) if argument else main())


@dataclass
class Program:
    """A program of the suite: what starts it, and what its probe has noted since.

    by_node: its endpoints follow from discovery, and count from the creation of its node. brief: it runs only while it
    is measured, and `fresh` is started again before it. ready: what it prints once it has all its endpoints. {new} in
    an argument becomes a new path.
    """

    name: str
    module: str
    arguments: Sequence[str] = ()
    by_node: bool = False
    brief: bool = False
    fresh: str = ""
    ready: str = ""
    process: Process | None = None
    node: float = 0.0
    created: dict[str, float] = field(default_factory=dict)
    matches: dict[str, tuple[int, float]] = field(default_factory=dict)  # number and since when

    def start(self, domain: int, folder: Path) -> None:
        """Start it."""
        self.node, self.created, self.matches = 0.0, {}, {}
        self._log = folder / f"{self.name}_{time.monotonic_ns()}.jsonl"
        self._log.touch()
        self._read = 0
        new = str(self._log.with_suffix(".new"))
        arguments = [argument.replace("{new}", new) for argument in self.arguments]
        self.process = Process([sys.executable, __file__, PROBE, str(self._log), self.module, *arguments], domain)

    def end(self) -> None:
        """End it as Ctrl-C does."""
        if self.process is not None:
            with self.process:
                pass
            self.process = None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self.process is not None and not self.process.alive

    def update(self) -> None:
        """Read what the probe has noted."""
        if self.process is None:
            return
        if self.has_ended and not self.brief:
            raise SystemExit(f"discovery: {self.name} has ended:\n{self.process.output}")
        with self._log.open(encoding="utf-8") as file:
            file.seek(self._read)
            whole = file.read().rpartition("\n")[0]
        self._read += len(whole.encode()) + 1 if whole else 0
        for line in whole.splitlines():
            entry = json.loads(line)
            if entry["event"] == "node":
                self.node = entry["time"]  # of the last one: some make one before, for their parameters
            elif entry["event"] == "created":
                self.created[entry["key"]] = entry["time"]
            elif entry["matches"] < 0:
                self.matches.pop(entry["key"], None)
            else:
                self.matches[entry["key"]] = entry["matches"], entry["time"]

    def creation(self, key: str, kinds: Mapping[str, str] | None = None) -> float:
        """When the endpoint with this key was created, or, with OPPOSITE, the last that another's matches."""
        kind, name, _ = key.split()
        own = f"{kinds[kind]} {name} " if kinds else key
        times = [time for other, time in self.created.items() if other.startswith(own)]
        return self.node if self.by_node or not times else max(times)


State = dict[str, dict[str, int]]  # matches by endpoint, by program
Found = tuple[float, str]


def difference(expected: State, found: State) -> str:
    """What one state has, or has not, beside another one."""
    sets = [
        {(name, *match) for name, matches in state.items() for match in matches.items()} for state in (expected, found)
    ]
    return f"{sorted(sets[0] - sets[1])}, has {sorted(sets[1] - sets[0])}"


class Group:
    """Programs that run beside each other in a ROS domain of their own."""

    def __init__(self, programs: Sequence[Program], domain: int, folder: Path) -> None:
        self._programs = {program.name: program for program in programs}
        self._domain, self._folder = domain, folder
        self._expected: dict[str, State] = {}  # by the brief program that runs, "" for none

    def start(self) -> None:
        """Start all in random order with random pauses, and learn who finds whom."""
        lasting = [program for program in self._programs.values() if not program.brief]
        for program in random.sample(lasting, len(lasting)):
            program.start(self._domain, self._folder)
            time.sleep(random.uniform(0.0, LONGEST_PAUSE))
        for program in lasting:
            assert program.process is not None
            program.process.until_printed(program.ready)
        self._expected[""] = self._settled()
        for program in self._programs.values():
            while program.brief and program.name not in self._expected:
                program.start(self._domain, self._folder)
                settled = self._settled()
                if not program.has_ended:
                    self._expected[program.name] = settled
                self._end(program)

    def restart(self, name: str) -> Found:
        """End and start a program; return the time [s] of its slowest connection, and which; or what it lacks."""
        program = self._programs[name]
        if program.fresh:
            self.restart(program.fresh)
        if not program.brief:
            program.end()
        time.sleep(random.uniform(0.0, LONGEST_PAUSE))
        began = time.monotonic()
        program.start(self._domain, self._folder)
        wait_until(lambda: self._state() and program.node, f"the node of {name}")
        expected = self._expected[name if program.brief else ""]
        try:
            wait_until(lambda: program.has_ended or self._state() == expected, f"all connections of {name}", LATEST)
        except AssertionError:
            lacking = f"lacks {difference(expected, self._state())}"
            if program.brief:
                program.end()
            return LATEST, lacking
        if program.has_ended:  # as the demo does where the controller is in fault on a busy computer
            self._end(program)
            return self.restart(name)
        slowest = max(self._times(program, began))
        if program.brief:
            self._end(program)
        return slowest

    def end(self) -> None:
        """End all."""
        for program in self._programs.values():
            program.end()

    def _end(self, program: Program) -> None:
        program.end()
        wait_until(lambda: self._state() == self._expected[""], f"the end of {program.name}")

    def _running(self) -> list[Program]:
        return [program for program in self._programs.values() if program.process is not None]

    def _state(self) -> State:
        for program in self._running():
            program.update()
        return {
            program.name: {key: number for key, (number, _) in program.matches.items() if number}
            for program in self._running()
        }

    def _settled(self) -> State:
        state, since = self._state(), time.monotonic()

        def is_settled() -> bool:
            nonlocal state, since
            if (current := self._state()) != state or not all(current.values()):
                state, since = current, time.monotonic()
            return time.monotonic() - since > SETTLED

        wait_until(is_settled, "a state that stays")
        return state

    def _times(self, started: Program, began: float) -> Iterator[tuple[float, str]]:
        for program in self._running():
            for key, (number, since) in program.matches.items():
                if number and since > began:
                    created = started.creation(key, OPPOSITE)
                    if program is started:  # which may also have the other end itself
                        created = max(started.creation(key), created)
                    yield since - created, f"{program.name}'s {key.rpartition(' ')[0]}"


def ros_arguments(**parameters: object) -> list[str]:
    """The parameters as a node's arguments."""
    return ["--ros-args", *(text for name, value in parameters.items() for text in ("-p", f"{name}:={value}"))]


def controller(name: str) -> Program:
    """A controller, passive."""
    arguments = ros_arguments(auto_activate=True, state_timeout=1.0)
    return Program(name, "fcnet_controller.controller_node", arguments, ready="mode: ")


def desk(board: FakeBoard) -> list[Program]:
    """A robot's bridge and controller, and all that records, watches and drives it."""
    host, port = board.address
    network = {"network.target": host, "network.port": port, "network.local_port": 0}
    private = (names.MODE.of(names.CONTROLLER), names.POLICY_STEP.of(names.CONTROLLER))
    topics = [f"/{topic.name}" for topic in (names.JOINT_STATES, names.IMU, names.JOINT_TRAJECTORY, *private)]
    remote = ros_arguments(robot="aliengo", bridge="aliengo_bridge")
    recorded = ["bag", "record", *topics, "--output", "{new}"]
    return [
        Program("bridge", "unitree_bridge.hardware=aliengo", ros_arguments(auto_start=True, **network)),
        controller("controller"),
        Program("monitor", "fcnet_teleop.monitor.node", [*remote, "-p", "port:=0"]),
        Program("joystick", "fcnet_teleop.teleop_joy", remote),
        Program("keyboard", "fcnet_teleop.teleop_keyboard", remote),
        Program("recorder", "ros2_standin.program", recorded, by_node=True),
    ]


def simulation() -> list[Program]:
    """A simulated robot with its controller, and the demo."""
    return [
        Program("simulator", "sim_bridge.mujoco_bridge", ros_arguments(auto_start=True)),
        controller("its controller"),
        Program("demo course", "fcnet_teleop.demo_course", brief=True, fresh="its controller"),
    ]


def playback() -> list[Program]:
    """A playback, which waits for states of a simulation that sends none, with its controller."""
    return [
        Program("playback", "sim_bridge.isaac_playback", ros_arguments(live="127.0.0.1:0")),
        controller("played controller"),
    ]


def replay() -> list[Program]:
    """A bag's replay, again and again, with the monitor that shows it."""
    arguments = ros_arguments(bag=BAG, loop=True, use_sim_time=True)
    return [
        Program("replay", "fcnet_controller.replay.node", arguments, ready="mode: "),
        Program("its monitor", "fcnet_teleop.monitor.node", ros_arguments(watch_only=True, port=0)),
    ]


@contextmanager
def running(programs: list[Program]) -> Iterator[Group]:
    """A group that runs within this context."""
    with own_domain() as domain, tempfile.TemporaryDirectory() as folder:
        group = Group(programs, domain, Path(folder))
        try:
            group.start()
            yield group
        finally:
            group.end()


def measure(starts: int) -> dict[str, list[Found]]:
    """Start programs so often in all; return what each start took, by program."""
    results: dict[str, list[Found]] = {}
    with FakeBoard(GEN33, JointPhysics(load_robot("aliengo"))) as board:
        groups = [desk(board), simulation(), playback(), replay()]
        total, done = sum(map(len, groups)), 0
        for programs in groups:
            share = round(starts * len(programs) / total) if programs is not groups[-1] else starts - done
            order = [programs[number % len(programs)].name for number in range(share)]
            random.shuffle(order)
            with running(programs) as group:
                for name in order:
                    results.setdefault(name, []).append(group.restart(name))
                    done += 1
                    print(f"{done:>4} {name:<18} {{:6.3f}} s  {{}}".format(*results[name][-1]), flush=True)
    return results


def main() -> int:
    """Measure and print; 1 where fewer starts than wanted found everything in time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=100, help="starts in all")
    parser.add_argument("--seed", type=int, default=0, help="of order and pauses")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    began = time.monotonic()
    results = measure(arguments.starts)
    times = {name: [seconds for seconds, _ in starts] for name, starts in results.items()}
    times["all"] = [value for values in times.values() for value in values]
    print(f"\n{'seconds':<18} {'starts':>6} {'p50':>7} {'p99':>7} {'max':>7} {'within ' + format(AIM, 'g') + ' s':>12}")
    for name, values in times.items():
        p50, p99, longest = np.quantile(values, (0.5, 0.99, 1.0))
        within = sum(value <= AIM for value in values)
        print(f"{name:<18} {len(values):>6} {p50:>7.3f} {p99:>7.3f} {longest:>7.3f} {within:>12}")
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if np.mean(np.array(times["all"]) <= AIM) >= WANTED else 1


if __name__ == "__main__":
    sys.exit(run_probed(*sys.argv[2:]) if sys.argv[1:2] == [PROBE] else main())
