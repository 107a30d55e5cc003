"""A motor board with a simulated robot behind it, and the real bridge and controller as processes in front of it."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from board_process import BoardProcess
from common import START_TIMEOUT
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from ros_harness import COMMAND_PERIOD, TIMEOUT, Client, Process, own_domain, ros_arguments
from std_msgs.msg import String

from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.names import CONTROLLER
from fcnet_core.robot import Robot
from fcnet_ros.targets import gains_text
from fcnet_ros.topics import DIAGNOSTICS, JOINT_GAINS, MODE, ROBOT_FAULT
from unitree_lowlevel.fake_board.faults import BoardFaults

IO_PROCESS = "unitree_lowlevel.io_process"  # in the command line of the bridge's child that drives the motors
LOSS_PERIOD = 1.0  # [s] over which the bridge counts lost packets
ATTEMPTS = 20
_STAND = ("stand_up", "standing", 0.3)
# The way to a mode from passive: service, the mode that it leads to, seconds to stay in it.
ROUTES = {
    "passive": (),
    "standing_up": (("stand_up", "standing_up", 1.0),),
    "standing": (_STAND,),
    "walking": (_STAND, ("walk", "walking", 1.2)),
    "lying_down": (_STAND, ("lie_down", "lying_down", 0.3)),
    "recovering": (("recover", "recovering", 0.3),),
    "fault": (("emergency_stop", "fault", 0.0),),
}


class ModeNotReachedError(RuntimeError):
    """Something other than the fault under test has kept the robot from a mode."""


@dataclass
class Events:
    """Times [s, time.monotonic] at which bridge and controller first reported a trip, a fault, a warning."""

    trip: tuple[float, str] | None = None  # the bridge's, with its name
    controller_fault: float | None = None
    warnings: dict[str, float] = field(default_factory=dict)  # the bridge's


class FaultRig:
    """The robot's bridge and controller in front of a `board`, which can be brought into any mode; `client` sees and
    commands them.

    log: receives the output of bridge and controller. physics: see BoardProcess. params_file: of bridge and controller.
    files: "robot" and "policy", which may be changed.
    speed [m/s]: forward while walking. control: further parameters of the controller. domain: of ROS. bridge: its node.
    events: since they were last replaced. gains: publishes joint_gains.
    """

    def __init__(
        self,
        robot: Robot,
        log: TextIO | None,
        physics: str = "mujoco",
        params_file: str = "",
        speed: float = 0.3,
        files: Mapping[str, Path] | None = None,
        **control: object,
    ) -> None:
        self.files = files or {}
        self.robot: Robot = robot
        self.bridge: str = f"{robot.name}_bridge"
        interface = load_model(shipped_model(robot.name)).card.interface
        kp, kd = interface.stiffness.tolist(), interface.damping.tolist()
        self.allowed_stiffness = min(max(kp), robot.safety.max_kp)  # [Nm/rad] that any joint may get
        self._policy_gains = gains_text(interface.joints, kp, kd)
        self._speed, self._log = speed, log
        self._stack = ExitStack()
        self.domain = self._stack.enter_context(own_domain())
        self.board: BoardProcess = BoardProcess(robot.name, physics)
        self._stack.callback(self.board.stop)
        host, port = self.board.address
        network = {"network.target": host, "network.port": port, "network.local_port": 0}
        of_bridge = ros_arguments(**network, auto_start=True, allow_recovery=True)
        of_controller = ros_arguments(robot=robot.name, auto_activate=True, **control)
        common = ["--params-file", params_file] if params_file else []
        self._commands = {
            "bridge": ["ros2", "run", self.bridge, "bridge", *of_bridge, *common],
            "controller": ["ros2", "run", "fcnet_controller", "controller", *of_controller, *common],
        }
        self._processes: dict[str, Process] = {}
        self._health: dict[str, str] = {}  # the bridge's newest diagnostics
        self.events = Events()
        self.client: Client = self._stack.enter_context(Client(self.domain, "fault_rig"))
        self.gains = JOINT_GAINS.publisher(self.client.node)
        MODE.of(CONTROLLER).subscribe(self.client.node, self._take_mode)
        ROBOT_FAULT.subscribe(self.client.node, self._take_fault)
        DIAGNOSTICS.subscribe(self.client.node, self._take_health)
        self._closing = threading.Event()
        self._driver = threading.Thread(target=self._drive, daemon=True)

    def __enter__(self) -> "FaultRig":
        self._driver.start()
        try:
            self.bring_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        for name in self._commands:
            self.end(name)
        self._closing.set()
        self._driver.join()
        self._stack.close()

    def bring_up(self) -> None:
        """End all faults of board and line, start programs that are not running, and wait until they are ready."""
        self.board.set_faults(BoardFaults())
        for name, command in self._commands.items():
            if self.alive(name):
                continue
            if name in self._processes:
                self._processes[name].clean_up()
            if name == "bridge":
                self._health, self.client.fault = {}, None
            else:
                self.client.mode = ""
            self._processes[name] = Process(command, self.domain, echo=self._log)
        self.client.until(
            lambda: self._health.get("driver_mode", "waiting") != "waiting" and self.client.mode,
            "a ready bridge and controller",
            START_TIMEOUT,
        )

    def process_id(self, name: str) -> int:
        """Return the id of "bridge" (which has the node), "io" (which drives the motors) or "controller"."""
        program = self._processes["bridge" if name == "io" else name]
        io = (number for number, line in program.survivors().items() if name == "io" and IO_PROCESS in line)
        return next(io, program.process.pid)

    def alive(self, name: str) -> bool:
        """Return whether "bridge" or "controller" runs."""
        return name in self._processes and self._processes[name].alive

    def end(self, name: str) -> None:
        """End a program, also one that is stopped."""
        if self.alive(name):
            for process in self._processes[name].survivors():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
            with suppress(subprocess.TimeoutExpired):
                self._processes[name].end(signal.SIGTERM, 10.0)
        if name in self._processes:
            self._processes.pop(name).clean_up()

    def offer_gains(self) -> None:
        """Offer the policy's gains, as the controller does when it begins."""
        self.gains.publish(String(data=self._policy_gains))

    def prepare(self, mode: str, timeout: float = TIMEOUT) -> None:
        """Bring a healthy robot into a mode of the controller, from lying on its belly, or on its back to recover.

        timeout [s]: for one of ATTEMPTS to become passive.
        """
        for _ in range(ATTEMPTS):
            self.recover(timeout)
            self.board.reset_body("on_back" if mode == "recovering" else "lying")
            time.sleep(LOSS_PERIOD)
            with suppress(ModeNotReachedError):
                return self._enter(mode)
        raise TimeoutError(f"{mode} was not reached in {ATTEMPTS} attempts; is this computer too busy?")

    def recover(self, timeout: float = TIMEOUT) -> None:
        """Leave trip and fault as an operator would. Raises TimeoutError if the robot is not passive in time."""
        end, client = time.monotonic() + timeout, self.client
        self.bring_up()
        while client.fault or client.mode != "passive":
            if client.fault:
                client.call(f"{self.bridge}/reset")
            elif client.mode:  # perhaps a text of another publisher: the controller may be in fault already
                if client.mode != "fault":
                    client.emergency_stop("controller")
                client.call("controller/reset")
            time.sleep(0.05)
            if time.monotonic() > end:
                raise TimeoutError(f"no recovery: mode {client.mode!r}, bridge {client.fault!r}")

    def _enter(self, mode: str) -> None:
        client = self.client
        if mode in ("passive", "fault"):  # without warnings left from before
            self._health = {}
            client.until(lambda: self._health.get("warnings") == "", "a bridge without warnings")
        for service, reached, stay in ROUTES[mode]:
            if service == "emergency_stop":
                client.emergency_stop("controller")
            else:  # recovery needs the bridge's permission
                nodes = [self.bridge, "controller"] if service == "recover" else ["controller"]
                if not all(client.call(f"{node}/{service}").success for node in nodes):
                    raise ModeNotReachedError
            # A fault on the way, as on a busy computer, ends the attempt.
            client.until(lambda modes=(reached, "fault"): client.mode in modes, f"mode {reached}")  # type: ignore[misc]
            if client.mode == reached:
                time.sleep(stay)
        if client.mode != mode:
            raise ModeNotReachedError

    def _take_mode(self, message: String) -> None:
        if message.data == "fault" and self.events.controller_fault is None:
            self.events.controller_fault = time.monotonic()

    def _take_fault(self, message: String) -> None:
        if message.data and self.events.trip is None:
            self.events.trip = (time.monotonic(), message.data.split(":")[0])

    def _take_health(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            if {"driver_mode", "warnings"} <= values.keys():
                self._health = values
                for name in re.findall(r"(?:^|; )([a-z_]+): ", values["warnings"]):
                    self.events.warnings.setdefault(name, time.monotonic())

    def _drive(self) -> None:
        """Publish cmd_vel while walking."""
        forward = Twist()
        forward.linear.x = self._speed
        while not self._closing.wait(COMMAND_PERIOD):
            if self.client.mode == "walking":
                self.client.velocity.publish(forward)
