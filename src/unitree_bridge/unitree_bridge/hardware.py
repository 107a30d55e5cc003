"""The hardware interface of a Unitree quadruped: its motor board behind an I/O process at 500 Hz."""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict

import msgspec
import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from sensor_msgs.msg import Joy

from fcnet_core.errors import FcnetError, ParameterError
from fcnet_core.names import BUTTONS, HealthKey, Request
from fcnet_core.remote import load_remote_map
from fcnet_core.robot import load_robot
from fcnet_ros.hardware import HardwareInterface, Status
from fcnet_ros.hardware_node import run_hardware
from fcnet_ros.health import ERROR, OK, WARN, LoopStatistics
from fcnet_ros.parameters import SIM_TIME
from fcnet_ros.program import SWITCH_INTERVAL
from fcnet_ros.targets import JointCommand
from fcnet_ros.topics import JOY
from unitree_bridge.ownership import PERIOD as OWNERSHIP_PERIOD
from unitree_bridge.ownership import RobotOwnership
from unitree_bridge.parameters import BridgeParameters
from unitree_lowlevel.codec import STICKS, decode_remote
from unitree_lowlevel.driver import DriverMode
from unitree_lowlevel.io_link import BoardReading, IoClient, IoSettings, Targets
from unitree_lowlevel.safety.checks import require_drivable

LEVELS = {logging.INFO: OK, logging.WARNING: WARN, logging.ERROR: ERROR}
REMOTE_FRAME = "unitree_remote"  # selects the layout of the joystick in config/remote.yaml
REMOTE_PERIOD = 0.02  # [s]
OLDEST_STATE = 0.05  # [s] older states have waited while this process was stopped, and are dropped


class UnitreeHardware(HardwareInterface):
    """The robot called `robot_name`. Its I/O process turns targets into motor commands and checks every state.

    If that process dies, the bridge damps the motors, and ~/reset starts another one.
    """

    parameters = BridgeParameters
    has_driver = True

    def __init__(self, robot_name: str) -> None:
        self._robot_name = robot_name
        self._connected = ExitStack()  # cleanup for `close`

    @property
    def fault(self) -> str:
        if self._io.ended:
            return f"io_process: {self._io.ended}; the bridge damps the motors; reset starts another I/O process"
        if self._io.is_silent:
            return "io_process: the I/O process hangs; the bridge damps the motors"
        return self._io.report.trip

    @property
    def target_refusal(self) -> str:
        return self._io.report.target_refusal or self._blocked

    @property
    def target_owner(self) -> str:
        return self._io.report.owner

    @property
    def _blocked(self) -> str:
        """Why targets may not start to be followed, or ""."""
        return "" if self._io.report.mode == DriverMode.FOLLOWING.value else self._ownership.conflict

    def configure(self, node: Node, parameters: BridgeParameters) -> None:
        """Connect to the robot. Raises ValueError or OSError, also if another program moves it."""
        if node.get_parameter(SIM_TIME).value:
            raise ParameterError("use_sim_time is for simulations: the bridge of a robot uses this computer's time")
        file = parameters.robot_file or self._robot_name
        self.robot = load_robot(file)
        if self.robot.name != self._robot_name:
            raise ParameterError(
                f"robot file {file} is for the {self.robot.name}, this is the bridge of the {self._robot_name}; choose "
                f"another file, or start {self.robot.name}_bridge"
            )
        require_drivable(self.robot)
        self.period = 1.0 / parameters.io_rate
        self.cycles_per_state = round(parameters.io_rate / parameters.publish_rate)
        self.error = ""
        self._active, self._gains = False, ((), ())
        self._events: list[Status] = []
        self._reading: BoardReading | None = None
        self._refused = 0
        self.statistics = self._statistics = LoopStatistics("io_period", "io_work")
        others = {
            "robot": file,
            "host": parameters.target.strip(),
            "period": self.period,
            "stop_chords": load_remote_map().joystick.emergency_stop,
        }
        self._settings = msgspec.convert(asdict(parameters) | others, IoSettings)
        self._io = IoClient(self._settings)
        self._connected.callback(lambda: self._io.close())
        self._io.wait_for_start()
        self._io.open()  # its lock excludes other bridges of this computer immediately; messages take seconds
        self._ownership = RobotOwnership(node)
        self._connected.callback(self._ownership.release)
        self._ownership.acquire()
        self._connected.callback(node.destroy_timer, node.create_timer(OWNERSHIP_PERIOD, self._renew_ownership))
        self._joy, self._joy_published = JOY.publisher(node), 0.0
        self._connected.callback(node.destroy_publisher, self._joy)
        self._clock = node.get_clock()
        self._received = time.monotonic()
        self._io.begin()

    def _renew_ownership(self) -> None:
        before = self._ownership.conflict
        self._ownership.renew()
        if self._ownership.conflict != before:
            self._events.append(Status(WARN, self._ownership.conflict or "the other bridge no longer holds this robot"))

    def activate(self) -> None:
        try:
            self._io.request("activate")
        except FcnetError:
            with suppress(FcnetError):  # withdraws a request whose response is only late
                self._io.request("deactivate")
            raise
        self._active = True

    def deactivate(self) -> None:
        self._active = False
        self._io.request("deactivate")

    def close(self) -> None:
        self._connected.close()

    def wait_until(self, deadline: float) -> float:
        """Wait for the next cycle of the I/O process."""
        self._io.wait(2.0 * self.period)
        return time.monotonic()

    def write(self, command: JointCommand) -> str | None:
        """Send a command to the driver; return why a previous one was rejected, as far as reported."""
        if command.targets is not None and (reason := self._blocked):
            return f"targets rejected: {reason}"
        targets = None if command.targets is None else command.targets.tolist()
        self._io.send(Targets(targets, command.received, command.source))
        report = self._io.report
        if report.refused == self._refused:
            return None
        self._refused = report.refused
        return report.refusal or None

    def read(self) -> BoardReading | None:
        """Return the newest state since the last call; damp the robot if its I/O process hangs."""
        newest = None
        for cycle in self._io.exchange():
            self._statistics.add("io_period", cycle.period)
            self._statistics.add("io_work", cycle.work)
            self._statistics.cycles, self._statistics.misses = cycle.number, cycle.misses
            newest = cycle.reading or newest
        if self._io.error:
            self.error = f"the loop to the robot has exited with an error; the robot is damped\n{self._io.error}"
        if newest is None or time.monotonic() - newest.received > OLDEST_STATE:
            return None
        self._reading, self._received = newest, newest.received
        return newest

    def on_published(self, reading: BoardReading) -> None:
        """Publish the wireless remote as joy, at most every REMOTE_PERIOD: axes lx, ly, rx, ry (-1 to 1, right and
        forward positive) and L2; buttons in BUTTONS' order.
        """
        if (now := time.monotonic()) - self._joy_published < REMOTE_PERIOD:
            return
        self._joy_published, state = now, decode_remote(reading.remote)
        message = Joy(axes=[getattr(state, axis) for axis in STICKS], buttons=[one in state.buttons for one in BUTTONS])
        message.header.frame_id, message.header.stamp = REMOTE_FRAME, self._clock.now().to_msg()
        self._joy.publish(message)

    def damp_at_end(self) -> None:
        """Stop the I/O process, which sends damping for a while."""
        self._io.close()

    def condition(self) -> object:
        report = self._io.report
        found = (report.mode, report.trip, report.warnings, report.owner)
        return found, self.target_refusal, self._io.is_silent, self._io.ended, self.error

    def take_events(self) -> Iterable[Status]:
        events, self._events = self._events, []
        return events + [Status(LEVELS[level], text) for level, text in self._io.take_events()]

    def requests(self) -> Mapping[str, Callable[[], str]]:
        return {Request.RESET.value: self._reset, Request.RECOVER.value: self._recover}

    def _recover(self) -> str:
        if problem := self._ownership.conflict or (self.fault if self._io.ended else ""):
            raise FcnetError(f"cannot recover: {problem}")
        return str(self._io.request("recover"))

    def _reset(self) -> str:
        if not self._io.ended:
            return str(self._io.request("reset"))
        ended, started = self._io, IoClient(self._settings)
        refusal = None
        try:
            started.wait_for_start()
            self._io = started
            ended.close()  # with its socket to the robot, which has damped the motors until now
            started.open()
            started.begin()
            if any(self._gains):
                refusal = started.request("set_gains", *self._gains)
            if self._active:
                started.request("activate")
        except FcnetError:
            started.close()
            raise
        done = "another I/O process was started: the joints are damped; targets are followed after a damp"
        return f"{done} and valid gains: {refusal}" if refusal else done

    def emergency_stop(self) -> None:
        """Damp until ~/reset. If the I/O process has exited, the bridge damps already."""
        if not self._io.ended:
            self._io.request("emergency_stop", "requested by ~/emergency_stop")

    def set_gains(self, kp: npt.ArrayLike, kd: npt.ArrayLike) -> str | None:
        self._gains = np.asarray(kp).tolist(), np.asarray(kd).tolist()
        return self._io.request("set_gains", *self._gains)

    def status(self) -> Status:
        """Return trip, warnings, counts of packets and temperatures; warn if the robot does not respond."""
        now, report = time.monotonic(), self._io.report
        values = {
            HealthKey.DRIVER_MODE: report.mode,
            HealthKey.TARGET_OWNER: report.owner,
            "trip": self.fault,
            HealthKey.WARNINGS: "; ".join(report.warnings),
            "robot_state_age_ms": f"{1e3 * (now - self._received):.1f}" if self._reading else "",
            "packet_loss_percent": "" if report.packet_loss is None else f"{100 * report.packet_loss:.2f}",
            **report.link,
        }
        if (reading := self._reading) and reading.temperature.any():  # motors without power report 0 C
            hottest = int(reading.temperature.argmax())
            values |= {
                "hottest_motor": f"{self.robot.joint_names[hottest]} {reading.temperature[hottest]:.0f}",
                "temperatures_deg_c": ", ".join(f"{value:.0f}" for value in reading.temperature.tolist()),
                "imu_temperature_deg_c": f"{reading.imu_temperature:.0f}",
            }
        if self.fault:
            return Status(ERROR, self.fault, values)
        if warnings := [*filter(None, (self._ownership.conflict, *report.warnings))]:
            return Status(WARN, "; ".join(warnings), values)
        if report.mode == DriverMode.WAITING.value:
            return Status(WARN, "waiting for the robot", values)
        return Status(OK, report.mode, values)


def main(robot: str) -> int:
    """Run the bridge of the robot called `robot` until a signal or an error; return the exit code, 0 after a signal."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    return run_hardware(f"{robot}_bridge", UnitreeHardware(robot))
