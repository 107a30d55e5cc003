"""A robot in MuJoCo as hardware, with the topics of a real one, in real time, faster or slower.

With `clock` its time is simulated time, which it publishes; in lockstep it waits for its controller (lockstep.py).
Commands must keep coming: after `command_timeout` without one the joints are damped.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from rclpy.node import Node

from fcnet_core.control.timing import LATEST
from fcnet_core.names import PUSH, SECOND, SIMULATION, Request
from fcnet_core.observation import SensorReading, TrunkPose
from fcnet_ros.hardware import HardwareInterface, Status
from fcnet_ros.hardware_node import run_hardware
from fcnet_ros.health import OK, WARN
from fcnet_ros.one_publisher import Company
from fcnet_ros.targets import JointCommand
from fcnet_ros.topics import CLOCK, IMU, JOINT_STATES
from quadruped_sim.physics.live_robot import LiveRobot
from sim_bridge.lockstep import Lockstep
from sim_bridge.parameters import BridgeParameters
from sim_bridge.simulation import Viewer, publish_terrain, push, simulated, timing

WAITING_PERIOD = 0.001  # [s] between two looks for the answer of a controller
OWNER_LAPSE = 1.0  # [s] of real time without a command after which another program's are followed
LATE = 0.5  # of the command timeout, after which simulated time waits for a command


class MujocoHardware(HardwareInterface):
    """A simulated robot; each `read` simulates one period of publication."""

    parameters = BridgeParameters
    part = SIMULATION
    can_wait = True
    has_trunk_pose = True
    catch_up = LATEST
    _viewer: Viewer | None = None

    def configure(self, node: Node, parameters: BridgeParameters) -> None:
        company = Company(node, JOINT_STATES, IMU)
        clocks = Company(node, *([CLOCK] if parameters.clock else []), remedy="clock:=false")
        self._node, self._settings = node, parameters
        self.period = parameters.time_step / parameters.real_time_factor
        # In fast motion the programs that send commands still need as much real time.
        self._timeout = parameters.command_timeout * max(1.0, parameters.real_time_factor)
        self._lock = threading.Lock()  # guards the robot and its command
        self._robot = simulated(LiveRobot, parameters, parameters.time_step, start=parameters.start)
        self.robot = self._robot.robot
        self._active = False
        self._command: JointCommand | None = None
        self._owner = ""  # whose targets are followed
        self._written = self._received = 0.0  # when the command came [s], simulated and time.monotonic; 0: no command
        self._events: list[Status] = []
        self._pose = self._robot.ground_truth()
        self._measured: tuple[float, float] | None = None  # simulated and real time [s]
        self._reading: SensorReading | None = None
        self.has_clock, self.error = parameters.clock, ""
        self._lockstep = Lockstep(parameters.lockstep, parameters.period, parameters.lockstep_timeout)
        publish_terrain(node, self._robot.terrain, self.trunk_pose, self.time if parameters.clock else None)
        company.refuse()
        clocks.refuse()
        self._viewer = Viewer(self._robot) if parameters.viewer else None

    def activate(self) -> None:
        self._active = True

    def deactivate(self) -> None:
        with self._lock:
            self._active, self._command = False, None

    @property
    def target_owner(self) -> str | None:
        return self._owner or None

    def write(self, command: JointCommand) -> str | None:
        now = time.monotonic()
        if self._owner and command.source != self._owner and now - self._received <= OWNER_LAPSE:
            return f"targets of {command.source} are rejected: the robot follows {self._owner}; end one of the two"
        self._owner, self._received = command.source, now
        self._lockstep.answered = command.stamp  # also if it is not followed: time continues
        if not self._active:
            return "the bridge is not active; activate it"
        with self._lock:
            self._command, self._written = command, self._robot.time
        return None

    def read(self) -> SensorReading | None:
        """Simulate one period; return None while time waits for a late controller.

        In lockstep the state that waits for an answer is returned again from time to time.
        """
        if self._lockstep.waits(self.time()):
            self.error = self._lockstep.problem(self.time())
            if not self._lockstep.repeats():
                return None
            if self._reading is None:
                with self._lock:
                    self._reading = self._robot.read_sensors()
            return self._reading
        if self._is_late() and time.monotonic() < self._received + self._settings.patience:
            return None
        if self._measured is None:
            self._measured = (self._robot.time, time.monotonic())
        with self._lock:
            self._follow_command()
            self._robot.advance(1)
            self._pose = self._robot.ground_truth()
            self._reading = self._robot.read_sensors()
        return self._reading

    def time(self) -> int:
        """Return simulated time [ns], which starts at 1 s because 0 means no time in ROS."""
        return SECOND + round(self._robot.time * SECOND)

    def wait_until(self, deadline: float) -> float:
        # Time that was spent waiting for the controller is made up for, as far as `catch_up` allows.
        if not self._lockstep.waits(self.time()):
            return super().wait_until(deadline)
        time.sleep(WAITING_PERIOD)
        return deadline - self.period

    def _is_late(self) -> bool:
        moving = self._lockstep.mode == "never" and self._command is not None and self._command.targets is not None
        return moving and self._robot.time - self._written > LATE * self._settings.command_timeout

    def _follow_command(self) -> None:
        if self._command is not None and self._robot.time - self._written > self._timeout:
            self._events.append(Status(OK, f"no command for {self._settings.command_timeout:g} s: damping the joints"))
            self._command = None
        if self._command is not None and self._command.targets is not None:
            self._robot.follow(self._command.targets)
        elif not self._robot.damped and (self._command is not None or self._written > 0.0):
            self._robot.damp()

    def trunk_pose(self) -> TrunkPose:
        return self._pose

    def on_published(self, reading: SensorReading) -> None:
        """Draw the robot in MuJoCo's window, if it is open; closing it ends the node."""
        if self._viewer is not None and not self.closed_by_user and not self._viewer.draw():
            self.closed_by_user = True
            self._events.append(Status(OK, "the viewer was closed: stopping"))

    def damp_at_end(self) -> None:
        self._robot.damp()

    def close(self) -> None:
        if self._viewer is not None:
            self._viewer.close()

    def condition(self) -> object:
        return len(self._events), self.error, self._owner

    def take_events(self) -> Iterable[Status]:
        events, self._events = self._events, []
        return events

    def requests(self) -> Mapping[str, Callable[[], str]]:
        return {
            PUSH: lambda: push(self._node, BridgeParameters, self._robot, self._lock),
            Request.RESET.value: self._reset,
        }

    def _reset(self) -> str:
        with self._lock:
            self._robot.reset()
            self._command, self._written = None, 0.0
        return f"the robot is {self._settings.start.replace('_', ' ')} where it started"

    def status(self) -> Status:
        """Return the real-time factor since the last call, and whether the joints are damped."""
        if self._measured is None:
            started = self._lockstep.mode == "never" or self._lockstep.answered is not None
            awaited = "recorder" if started else "controller, in lockstep,"
            return Status(WARN, f"waiting for the {awaited} to start")
        (simulated, measured), self._measured = self._measured, (self._robot.time, time.monotonic())
        factor = (self._measured[0] - simulated) / max(self._measured[1] - measured, 1e-6)
        target, lockstep = self._settings.real_time_factor, str(self._lockstep.mode == "always").lower()
        status = timing(factor, target, self._robot, lockstep=lockstep)
        if status.level == WARN and self._lockstep.mode == "auto":
            self._lockstep.mode = "always"
            missed = f"this computer does not reach real time (factor {factor:.2f} instead of {target:.2f})"
            self._events.append(Status(WARN, f"{missed}: lockstep from now on, it waits for the controller"))
        return status


def main() -> int:
    """Run the bridge until a signal or an error ends it; 0 after a signal."""
    return run_hardware("mujoco_bridge", MujocoHardware())
