"""A fake board with the MuJoCo robot behind it, and the real bridge and controller as processes before it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.robot import JOINT_NAMES, Robot
from fcnet_ros.program import participant_profile
from quadruped_sim.live_robot import MotorDrivenRobot
from quadruped_sim.terrain import named_terrain
from sim_bridge.mujoco_board import MujocoPhysics
from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import PERIOD, FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults

PATIENCE = 60.0  # [s] for a process to be ready or a mode to be reached
INTRUSION_PERIOD = 0.02  # [s]
WALKING_SPEED = 0.3  # [m/s]
FORGETTING = 1.0  # [s] after which the bridge's packet loss is about the present alone
ATTEMPTS = 5


class ModeNotReachedError(RuntimeError):
    """Something else than the fault under test has kept the robot from a mode."""


class RestartableProgram:
    """A program of the suite that can be ended in every way and started again; its output goes to a file."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command, self._log = command, log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.alive:
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """End it without warning."""
        self._signal(signal.SIGKILL)

    def replace(self) -> None:
        """End it without warning, and start it again at once, as systemd would."""
        assert self._process is not None
        self.kill()
        self._process.wait()
        self.start()

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop it where it is."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Make sure that it has ended."""
        if self._process is not None and self.alive:
            self.thaw()
            self.terminate()
            try:
                self._process.wait(10.0)
            except subprocess.TimeoutExpired:
                self.kill()
                self._process.wait()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)


class WatchedNews:
    """What bridge and controller say over ROS, with the times at which it was heard [s, time.monotonic]."""

    def __init__(self) -> None:
        self.mode = ""
        self.fault = ""  # the bridge's
        self.phase = ""
        self.health: dict[str, str] = {}
        self.first_fault: tuple[float, str] | None = None
        self.controller_fault: float | None = None
        self.told: dict[str, float] = {}

    def forget(self) -> None:
        """Forget everything but the present state."""
        self.first_fault = self.controller_fault = None
        self.told = {}

    def hear_mode(self, message: String) -> None:
        """The controller's mode."""
        self.mode = message.data
        if self.mode == "fault" and self.controller_fault is None:
            self.controller_fault = time.monotonic()

    def hear_fault(self, message: String) -> None:
        """The bridge's trip, or that there is none."""
        self.fault = message.data
        if self.fault and self.first_fault is None:
            self.first_fault = (time.monotonic(), self.fault.split(":")[0])

    def hear_health(self, message: DiagnosticArray) -> None:
        """The bridge's warnings, once a second."""
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            if "phase" not in values:
                continue
            self.health, self.phase = values, values["phase"]
            for name in re.findall(r"(?:^|; )([a-z_]+): ", values["warnings"]):
                self.told.setdefault(name, time.monotonic())


class FaultRig:
    """Everything that a fault needs: a board, a bridge and a controller that can be brought into any mode."""

    def __init__(self, robot: Robot, logs: Path, allowed_stiffness: float) -> None:
        self.robot = robot
        self.allowed_stiffness = allowed_stiffness  # [Nm/rad]
        self.news = WatchedNews()
        self._physics = MujocoPhysics(MotorDrivenRobot(robot, named_terrain("flat"), timestep=PERIOD))
        self.board = FakeBoard(GEN33, self._physics)
        self._intrusion = ""
        self._context = rclpy.Context()
        with participant_profile():
            rclpy.init(context=self._context)
            self._node = rclpy.create_node("fault_matrix", context=self._context)
        self._listen()
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=turn, daemon=True) for turn in (self._spin, self._drive)]
        host, port = self.board.address
        network = ["-p", f"network.target:={host}", "-p", f"network.port:={port}", "-p", "network.local_port:=0"]
        bridge = ["ros2", "run", f"{robot.name}_bridge", "bridge", "--ros-args", *network, "-p", "auto_start:=true"]
        controller = ["ros2", "run", "fcnet_controller", "controller", "--ros-args", "-p", f"robot:={robot.name}"]
        self.bridge = RestartableProgram(bridge, logs / f"{robot.name}_bridge.log")
        self.controller = RestartableProgram([*controller, "-p", "auto_activate:=true"], logs / "controller.log")

    def __enter__(self) -> FaultRig:
        self.board.start()
        for thread in self._threads:
            thread.start()
        self.bring_up()
        return self

    def __exit__(self, *_error: object) -> None:
        for program in (self.controller, self.bridge):
            program.end()
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)
        self.board.stop()

    def bring_up(self) -> None:
        """Start what does not run, and wait until it is ready."""
        news = self.news
        if not self.bridge.alive:
            news.phase = news.fault = ""
        if not self.controller.alive:
            news.mode = ""
        self.bridge.start()
        self.controller.start()
        self.until(lambda: news.phase not in ("", "waiting") and news.mode != "", "bridge and controller are ready")

    def prepare(self, mode: str) -> None:
        """Bring a healthy robot into a mode of the controller, lying where the mode is passive or fault."""
        for _ in range(ATTEMPTS):
            self.recover()
            self._physics.reset()
            time.sleep(FORGETTING)
            with suppress(ModeNotReachedError):
                return self._enter(mode)
        raise TimeoutError(f"{mode} was not reached in {ATTEMPTS} attempts; is this computer too busy?")

    def _enter(self, mode: str) -> None:
        if mode in ("passive", "fault"):
            self._wait_for_health()
        if mode == "fault":
            self.request("controller/emergency_stop")
            self._reach("fault")
        elif mode != "passive":
            self._ask("stand_up", "standing_up", 1.0)
            if mode != "standing_up":
                self._reach("standing")
                time.sleep(0.3)
            if mode == "walking":
                self._ask("walk", "walking", 1.2)
            elif mode == "lying_down":
                self._ask("lie_down", "lying_down", 0.3)
            if self.news.mode != mode:
                raise ModeNotReachedError

    def recover(self) -> float:
        """Leave trip and fault as a person would; returns how long it took until the robot was passive [s]."""
        began = time.monotonic()
        self.bring_up()
        bridge, news = f"{self.robot.name}_bridge", self.news
        while news.fault or news.mode != "passive":
            if news.fault:
                self.request(f"{bridge}/reset")
            elif news.mode == "fault":
                self.request("controller/reset")
            elif news.mode:
                self.request("controller/emergency_stop")
            time.sleep(0.05)
            if time.monotonic() > began + PATIENCE:
                raise TimeoutError(f"no recovery: mode {news.mode!r}, bridge {news.fault!r}")
        return time.monotonic() - began

    def set_faults(self, faults: BoardFaults) -> None:
        """Let the board have these faults and no others."""
        self.board.faults = faults

    def replace_bridge(self) -> None:
        """Kill the bridge; the next one is on its way when this returns."""
        self.bridge.replace()
        self.news.phase = self.news.fault = ""

    def stop_bridge(self) -> None:
        """Call the bridge's emergency stop."""
        self.request(f"{self.robot.name}_bridge/emergency_stop")

    def intrude(self, how: str) -> None:
        """Publish joint_trajectory beside the controller: "nan", "jump" (far from where the joints are) or nothing."""
        self._intrusion = how

    def request(self, name: str) -> bool:
        """Call a service; whether it was accepted."""
        stop = name.endswith("emergency_stop")
        client = self._clients[name]
        if not client.wait_for_service(PATIENCE):
            raise TimeoutError(f"there is no service {name}")
        answered = threading.Event()
        future = client.call_async(SetBool.Request(data=True) if stop else Trigger.Request())
        future.add_done_callback(lambda _: answered.set())
        return answered.wait(5.0) and bool(future.result().success)

    def until(self, condition: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        """Wait until `condition()` holds."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not within {timeout:g} s (mode {self.news.mode!r}, {self.news.fault!r})")
            time.sleep(0.002)

    def _wait_for_health(self) -> None:
        """Wait until the bridge has no warnings left of what was before."""
        self.news.health = {}
        self.until(lambda: self.news.health.get("warnings") == "", "a bridge without warnings")

    def _ask(self, request: str, mode: str, settle: float) -> None:
        if not self.request(f"controller/{request}"):
            raise ModeNotReachedError
        self._reach(mode)
        time.sleep(settle)

    def _reach(self, mode: str) -> None:
        """Wait for a mode; a fault on the way, as on a busy computer, ends the attempt."""
        self.until(lambda: self.news.mode in (mode, "fault"), mode)
        if self.news.mode != mode:
            raise ModeNotReachedError

    def _listen(self) -> None:
        node, news = self._node, self.news
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(String, "controller/mode", news.hear_mode, latched)
        node.create_subscription(String, "robot_fault", news.hear_fault, latched)
        node.create_subscription(DiagnosticArray, "/diagnostics", news.hear_health, 10)
        self._velocity = node.create_publisher(Twist, "cmd_vel", 10)
        self._targets = node.create_publisher(JointTrajectory, "joint_trajectory", 1)
        triggers = [f"{self.robot.name}_bridge/reset", *(f"controller/{name}" for name in _REQUESTS)]
        stops = [f"{self.robot.name}_bridge/emergency_stop", "controller/emergency_stop"]
        self._clients: dict[str, Any] = {name: node.create_client(Trigger, name) for name in triggers}
        self._clients |= {name: node.create_client(SetBool, name) for name in stops}

    def _spin(self) -> None:
        while not self._closing.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def _drive(self) -> None:
        """Send cmd_vel while walking, and whatever an intruder sends."""
        forward = Twist()
        forward.linear.x = WALKING_SPEED
        while not self._closing.wait(INTRUSION_PERIOD):
            if self.news.mode == "walking":
                self._velocity.publish(forward)
            if self._intrusion:
                self._targets.publish(self._intruder())

    def _intruder(self) -> JointTrajectory:
        pose = np.where(np.arange(12) % 3 == 1, self.robot.upper, self.robot.stand_pose)  # thighs all the way back
        positions = np.full(12, np.nan) if self._intrusion == "nan" else pose
        return JointTrajectory(
            joint_names=list(JOINT_NAMES), points=[JointTrajectoryPoint(positions=positions.tolist())]
        )


_REQUESTS = ("stand_up", "walk", "lie_down", "reset")
