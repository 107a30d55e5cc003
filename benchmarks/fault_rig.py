"""A fake board with the MuJoCo robot behind it, and the real bridge and controller as processes in front of it."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from std_msgs.msg import String

from fcnet_core.robot import Robot
from fcnet_ros.testing import COMMAND_PERIOD, LATCHED, TIMEOUT, Client, Process
from quadruped_sim.live_robot import MotorDrivenRobot
from quadruped_sim.terrain import named_terrain
from sim_bridge.mujoco_board import MujocoPhysics
from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import PERIOD, FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults

WALKING_SPEED = 0.3  # [m/s]
LOSS_PERIOD = 1.0  # [s] after which the bridge's packet loss is about the present alone
ATTEMPTS = 5


class ModeNotReachedError(RuntimeError):
    """Something other than the fault under test has kept the robot from a mode."""


class Program:
    """A program of the suite that can be ended in every way and started again; its output goes to a file."""

    def __init__(self, command: list[str], domain: int, log: Path) -> None:
        self._command, self._domain, self._log = command, domain, log
        self._process: Process | None = None

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Start it, unless it is running."""
        if not self.alive:
            ended, self._process = self._process, Process(self._command, self._domain)
            self._save(ended)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send(number)

    def replace(self) -> None:
        """Kill it and start it again at once, as systemd would."""
        self.send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self.start()

    def end(self) -> None:
        """End it, whatever state it is in."""
        if self._process is not None and self.alive:
            self.send(signal.SIGCONT)
            try:
                self._process.end(signal.SIGTERM, 10.0)
            except subprocess.TimeoutExpired:
                self.send(signal.SIGKILL)

    def close(self) -> None:
        """End it and complete its log."""
        self.end()
        self._save(self._process)

    def _save(self, process: Process | None) -> None:
        if process is not None:
            process.clean_up()
            with self._log.open("a") as log:
                log.write(process.output)


class Events:
    """Times [s, time.monotonic] at which bridge and controller reported a trip, a fault, a warning, since `clear`.

    health: the values of the bridge's newest diagnostics.
    """

    def __init__(self) -> None:
        self.health: dict[str, str] = {}
        self.clear()

    def clear(self) -> None:
        """Drop all times."""
        self.trip: tuple[float, str] | None = None  # the bridge's first
        self.controller_fault: float | None = None
        self.warnings: dict[str, float] = {}

    def take_mode(self, message: String) -> None:
        """The controller's mode."""
        if message.data == "fault" and self.controller_fault is None:
            self.controller_fault = time.monotonic()

    def take_fault(self, message: String) -> None:
        """The bridge's trip, empty for none."""
        if message.data and self.trip is None:
            self.trip = (time.monotonic(), message.data.split(":")[0])

    def take_health(self, message: DiagnosticArray) -> None:
        """The bridge's warnings, once a second."""
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            if {"driver_mode", "warnings"} <= values.keys():
                self.health = values
                for name in re.findall(r"(?:^|; )([a-z_]+): ", values["warnings"]):
                    self.warnings.setdefault(name, time.monotonic())


class FaultRig:
    """Board, bridge and controller, which can be brought into any mode; `client` sees and commands them."""

    def __init__(self, robot: Robot, domain: int, logs: Path, allowed_stiffness: float) -> None:
        self.robot = robot
        self.allowed_stiffness = allowed_stiffness  # [Nm/rad]
        self.intruder = ""  # publishes joint_trajectory beside the controller: "nan", "jump" (a far pose) or not at all
        self._physics = MujocoPhysics(MotorDrivenRobot(robot, named_terrain("flat"), timestep=PERIOD))
        self.board = FakeBoard(GEN33, self._physics)
        host, port = self.board.address
        network = ["-p", f"network.target:={host}", "-p", f"network.port:={port}", "-p", "network.local_port:=0"]
        bridge = ["ros2", "run", f"{robot.name}_bridge", "bridge", "--ros-args", *network, "-p", "auto_start:=true"]
        controller = ["ros2", "run", "fcnet_controller", "controller", "--ros-args", "-p", f"robot:={robot.name}"]
        self.bridge = Program(bridge, domain, logs / f"{robot.name}_bridge.log")
        self.controller = Program([*controller, "-p", "auto_activate:=true"], domain, logs / "controller.log")
        self.events = Events()
        self.client = Client(domain, "fault_matrix")
        self.client.subscribe(String, "controller/mode", self.events.take_mode, LATCHED)
        self.client.subscribe(String, "robot_fault", self.events.take_fault, LATCHED)
        self.client.subscribe(DiagnosticArray, "/diagnostics", self.events.take_health, 10)
        self._closing = threading.Event()
        self._driver = threading.Thread(target=self._drive, daemon=True)

    def __enter__(self) -> FaultRig:
        self.board.start()
        self._driver.start()
        self.bring_up()
        return self

    def __exit__(self, *_error: object) -> None:
        self.controller.close()
        self.bridge.close()
        self._closing.set()
        self._driver.join()
        self.client.close()
        self.board.stop()

    def bring_up(self) -> None:
        """Start what is not running, and wait until it is ready."""
        if not self.bridge.alive:
            self._expect_new_bridge()
        if not self.controller.alive:
            self.client.mode = ""
        self.bridge.start()
        self.controller.start()
        self.client.until(
            lambda: self.events.health.get("driver_mode", "waiting") != "waiting" and self.client.mode,
            "a ready bridge and controller",
        )

    def prepare(self, mode: str) -> None:
        """Bring a healthy robot into a mode of the controller, lying where the mode is passive or fault."""
        for _ in range(ATTEMPTS):
            self.recover()
            self._physics.reset()
            time.sleep(LOSS_PERIOD)
            with suppress(ModeNotReachedError):
                return self._enter(mode)
        raise TimeoutError(f"{mode} was not reached in {ATTEMPTS} attempts; is this computer too busy?")

    def recover(self) -> float:
        """Leave trip and fault as an operator would; returns how long it took until the robot was passive [s]."""
        began = time.monotonic()
        self.bring_up()
        client = self.client
        while client.fault or client.mode != "passive":
            if client.fault:
                client.call(f"{self.robot.name}_bridge/reset")
            elif client.mode == "fault":
                client.call("controller/reset")
            elif client.mode:
                client.emergency_stop("controller")
            time.sleep(0.05)
            if time.monotonic() > began + TIMEOUT:
                raise TimeoutError(f"no recovery: mode {client.mode!r}, bridge {client.fault!r}")
        return time.monotonic() - began

    def set_faults(self, faults: BoardFaults) -> None:
        """Let the board have these faults and no others."""
        self.board.faults = faults

    def set_intruder(self, kind: str) -> None:
        """See `intruder`."""
        self.intruder = kind

    def replace_bridge(self) -> None:
        """Kill the bridge; the next one is starting when this returns."""
        self.bridge.replace()
        self._expect_new_bridge()

    def restart_bridge(self) -> None:
        """End the bridge, start another one, and wait until it is ready."""
        self.bridge.end()
        self.bring_up()

    def _expect_new_bridge(self) -> None:
        self.events.health, self.client.fault = {}, None

    def _enter(self, mode: str) -> None:
        if mode in ("passive", "fault"):  # without warnings left from before
            self.events.health = {}
            self.client.until(lambda: self.events.health.get("warnings") == "", "a bridge without warnings")
        if mode == "fault":
            self.client.emergency_stop("controller")
            self._reach("fault")
        elif mode != "passive":
            self._request("stand_up", "standing_up", 1.0)
            if mode != "standing_up":
                self._reach("standing")
                time.sleep(0.3)
            if mode == "walking":
                self._request("walk", "walking", 1.2)
            elif mode == "lying_down":
                self._request("lie_down", "lying_down", 0.3)
            if self.client.mode != mode:
                raise ModeNotReachedError

    def _request(self, name: str, mode: str, settle: float) -> None:
        if not self.client.call(f"controller/{name}").success:
            raise ModeNotReachedError
        self._reach(mode)
        time.sleep(settle)

    def _reach(self, mode: str) -> None:
        """Wait for a mode; a fault on the way, as on a busy computer, ends the attempt."""
        self.client.until(lambda: self.client.mode in (mode, "fault"), f"mode {mode}")
        if self.client.mode != mode:
            raise ModeNotReachedError

    def _drive(self) -> None:
        """Publish cmd_vel while walking, and the intruder's targets."""
        forward = Twist()
        forward.linear.x = WALKING_SPEED
        far = np.where(np.arange(12) % 3 == 1, self.robot.upper, self.robot.stand_pose)  # thighs all the way back
        while not self._closing.wait(COMMAND_PERIOD):
            if self.client.mode == "walking":
                self.client.velocity.publish(forward)
            if self.intruder:
                self.client.send_targets((np.full(12, np.nan) if self.intruder == "nan" else far).tolist())
