"""A Unitree quadruped as hardware: its motor board behind the vendor's low-level protocol, driven at 500 Hz."""

from __future__ import annotations

import logging
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy.typing as npt
from rclpy.node import Node
from sensor_msgs.msg import Joy

from fcnet_core.limiter import JointCommand
from fcnet_core.remote import load_remote_map
from fcnet_core.robot import JOINT_NAMES, Robot, load_robot
from fcnet_ros.hardware import Event, HardwareInterface, HardwareParameters, Status, run_hardware
from fcnet_ros.health import ERROR, OK, WARN
from fcnet_ros.parameters import ParameterError, parameter
from fcnet_ros.topics import JOY
from unitree_bridge.loop_thread import StatePhase, request_privileges
from unitree_bridge.ownership import PERIOD as OWNERSHIP_PERIOD
from unitree_bridge.ownership import RobotOwnership, lock_robot
from unitree_lowlevel.codec import BUTTONS, GENERATIONS, LowState, decode_remote
from unitree_lowlevel.driver import DriverMode, MotorDriver
from unitree_lowlevel.limiter import damping_command
from unitree_lowlevel.network import resolve
from unitree_lowlevel.transport import TRANSPORTS, make_transport

LEVELS = {logging.INFO: OK, logging.WARNING: WARN, logging.ERROR: ERROR}
REMOTE_FRAME = "unitree_remote"  # selects the layout of the joystick in config/remote.yaml
REMOTE_PERIOD = 0.02  # [s]
END_DAMPING = 0.12  # [s] of damping commands at the end, many times what a lossy network needs
SILENCE = 3.0  # [s] without a state before a warning
SILENCE_PERIOD = 5.0  # [s] between two warnings about it
SWITCH_INTERVAL = 0.0005  # [s] that the executor's thread may keep the loop from the interpreter


@dataclass(frozen=True)
class BridgeParameters(HardwareParameters):
    """What the bridge connects to, and how its loop runs."""

    robot_file: str = parameter("", "YAML file of the robot; empty for the one that comes with the suite")
    transport: str = parameter("wire", "what carries the packets, sdk is the vendor's library", choices=TRANSPORTS)
    generation: str = parameter("gen33", "format of the packets; A1 and Aliengo use gen33", choices=tuple(GENERATIONS))
    target: str = parameter("192.168.123.10", "address of the robot's motor board", name="network.target")
    port: int = parameter(8007, "UDP port of the motor board", (1, 65535), name="network.port")
    local_port: int = parameter(
        8080, "UDP port of this computer; 0 takes any that is free", (0, 65535), name="network.local_port"
    )
    io_rate: float = parameter(500.0, "cycles of the loop per second [Hz]; each sends one command", (100.0, 1000.0))
    publish_rate: float = parameter(
        500.0, "joint_states and imu/data per second [Hz]; io_rate is a whole multiple of it", (10.0, 1000.0)
    )
    interpolation_time: float = parameter(0.01, "longest ramp [s] from one target to the next", (0.0, 0.1))
    realtime_priority: int = parameter(
        0, "SCHED_FIFO priority of the loop; 0 leaves it to the ordinary scheduler", (0, 99)
    )
    lock_memory: bool = parameter(False, "keep this process in memory (mlockall)")
    cpu: int = parameter(-1, "processor to which the loop is pinned; -1 leaves it to the scheduler", (-1, 1023))

    def __post_init__(self) -> None:
        """Check that the rates fit together."""
        if self.io_rate < self.publish_rate or self.io_rate % self.publish_rate:
            raise ParameterError(
                f"parameter publish_rate is {self.publish_rate:g} Hz; io_rate = {self.io_rate:g} Hz must be a whole "
                "multiple of it"
            )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the motor board."""
        return self.target.strip(), self.port


class UnitreeHardware(HardwareInterface):
    """The robot called `robot_name`. Targets become motor commands in a MotorDriver, which checks every state."""

    parameters = BridgeParameters
    has_emergency_stop = True
    takes_gains = True

    def __init__(self, robot_name: str) -> None:
        self._robot_name = robot_name
        self._connected = ExitStack()  # what is undone, the latest first, when the robot is left

    @property
    def fault(self) -> str:
        """The finding that has tripped the robot."""
        return str(self._driver.trip or "")

    @property
    def target_refusal(self) -> str:
        """Why targets would not be followed now."""
        return self._driver.target_refusal

    def configure(self, node: Node, parameters: BridgeParameters) -> None:
        """Connect, and make sure that no other program moves the robot."""
        robot = self._load_robot(parameters)
        self._settings = parameters
        self.period = 1.0 / parameters.io_rate
        self.cycles_per_state = round(parameters.io_rate / parameters.publish_rate)
        self.error = ""
        self._damping = damping_command(robot)
        self._events: list[Event] = []
        chords, longest_ramp = load_remote_map().joystick.emergency_stop, parameters.interpolation_time
        self._driver = MotorDriver(robot, self.period, interpolation_time=longest_ramp, stop_chords=chords)
        generation, (host, port) = GENERATIONS[parameters.generation], parameters.address
        self._transport = make_transport(parameters.transport, generation, (host, port), parameters.local_port)
        self._transport.open()
        self._connected.callback(self._transport.close)
        # The lock excludes other bridges of this computer at once, where messages may take seconds.
        self._connected.callback(lock_robot((resolve(host), port)).close)
        self._ownership = RobotOwnership(node)
        self._connected.callback(self._ownership.release)
        self._ownership.acquire()
        self._connected.callback(node.destroy_timer, node.create_timer(OWNERSHIP_PERIOD, self._renew_ownership))
        self._transport.receive()  # what has arrived meanwhile is old
        self._phase = StatePhase(self.period)
        self._remote = RemotePublisher(node)
        self._connected.callback(self._remote.destroy, node)
        self._received = self._warned = time.monotonic()

    def _load_robot(self, parameters: BridgeParameters) -> Robot:
        robot = load_robot(parameters.robot_file or self._robot_name)
        if robot.name != self._robot_name:
            raise ParameterError(
                f"robot file {parameters.robot_file} is that of the {robot.name}, this is the bridge of the "
                f"{self._robot_name}; choose the other file, or start {robot.name}_bridge"
            )
        return robot

    def _renew_ownership(self) -> None:
        if sentence := self._ownership.renew():
            self.error = f"{sentence}; this bridge leaves the robot, damped"

    def activate(self) -> None:
        """Let the joints follow targets."""
        self._driver.activate()

    def deactivate(self) -> None:
        """Damp the joints."""
        self._driver.deactivate()

    def close(self) -> None:
        """Close the connection and let others have the robot."""
        self._connected.close()

    def prepare_thread(self) -> Iterable[str]:
        """Request priority, memory and processor for the loop."""
        settings = self._settings
        return request_privileges(settings.realtime_priority, settings.lock_memory, settings.cpu)

    def write(self, command: JointCommand) -> str | None:
        """Hand a command to the driver."""
        if command.targets is None:
            return self._driver.damp()
        return self._driver.set_targets(command.targets, time.monotonic())

    def read(self) -> LowState | None:
        """Receive the newest state, send the driver's command."""
        transport = self._transport
        reception = transport.receive()
        now = time.monotonic()
        transport.send(self._driver.cycle(now, reception, transport.counters))
        self.phase_shift = self._phase.shift(transport.counters.received, now)
        if reception is None:
            return None
        self._received = reception.received
        return reception.state

    def on_published(self, reading: LowState) -> None:
        """Publish the wireless remote as a joystick."""
        self._remote.publish(reading.remote)

    def damp_at_end(self) -> None:
        """Send damping for a while."""
        end = time.monotonic() + END_DAMPING
        while time.monotonic() < end:
            self._transport.send(self._damping)
            time.sleep(self.period)

    def condition(self) -> object:
        """Return what the driver has found."""
        driver = self._driver
        return driver.mode, driver.trip, driver.warnings, driver.target_refusal, self.error

    def take_events(self) -> Iterable[Event]:
        """Return the driver's events."""
        events, self._events = self._events, []
        return events + [Event(LEVELS[level], sentence) for level, sentence in self._driver.take_events()]

    def requests(self) -> Mapping[str, Callable[[], str]]:
        """Return ~/reset."""
        return {"reset": lambda: self._driver.reset(time.monotonic())}

    def emergency_stop(self, reason: str) -> None:
        """Damp until ~/reset."""
        self._driver.emergency_stop(reason)

    def set_gains(self, kp: npt.ArrayLike, kd: npt.ArrayLike) -> str | None:
        """Use these gains when joints begin to follow; return why they are refused."""
        return self._driver.set_gains(kp, kd)

    def status(self) -> Status:
        """Return trip, warnings, packets and temperatures; a robot that does not answer gets a warning."""
        now = time.monotonic()
        self._watch_silence(now)
        driver, counters, loss = self._driver, self._transport.counters, self._driver.packet_loss
        values = {
            "driver_mode": driver.mode.value,
            "trip": self.fault,
            "warnings": "; ".join(driver.warnings),
            "robot_state_age_ms": f"{1e3 * (now - self._received):.1f}" if driver.state else "",
            "packet_loss_percent": "" if loss is None else f"{100 * loss:.2f}",
            "packets_sent": str(counters.sent),
            "packets_received": str(counters.received),
            "packets_rejected": ", ".join(f"{kind} {count}" for kind, count in sorted(counters.rejected.items())),
            "packets_foreign": str(counters.foreign),
            "packets_duplicate": str(counters.duplicates),
            "packets_old": str(counters.old),
            "send_errors": str(counters.send_errors),
        }
        if state := driver.state:
            hottest = int(state.temperature.argmax())
            values |= {
                "hottest_motor": f"{JOINT_NAMES[hottest]} {state.temperature[hottest]:.0f}",
                "temperatures_deg_c": ", ".join(f"{value:.0f}" for value in state.temperature.tolist()),
                "imu_temperature_deg_c": f"{state.imu_temperature:.0f}",
            }
        if self.fault:
            return Status(ERROR, self.fault, values)
        if driver.warnings:
            return Status(WARN, "; ".join(driver.warnings), values)
        if driver.mode is DriverMode.WAITING:
            return Status(WARN, "waiting for the robot", values)
        return Status(OK, driver.mode.value, values)

    def _watch_silence(self, now: float) -> None:
        silence = now - self._received
        if silence < SILENCE or now - self._warned < SILENCE_PERIOD:
            return
        self._warned = now
        host, port = self._settings.address
        reason = self._transport.counters.last_rejection or (
            "check that the robot is on, its cable, the parameters network.target and network.port, and the address of "
            "this computer (as 192.168.123.162/24)"
        )
        self._events.append(Event(WARN, f"no state from {host}:{port} for {silence:.0f} s: {reason}; still waiting"))


class RemotePublisher:
    """joy: axes lx, ly, rx, ry (right and forward are positive, -1 to 1) and L2; the 16 buttons in BUTTONS' order."""

    def __init__(self, node: Node) -> None:
        self._publisher = JOY.publisher(node)
        self._clock = node.get_clock()
        self._published = 0.0
        self._message = Joy()
        self._message.header.frame_id = REMOTE_FRAME

    def publish(self, remote: bytes) -> None:
        """Publish the 40 bytes of a remote, where REMOTE_PERIOD has passed since the last time."""
        now = time.monotonic()
        if now - self._published < REMOTE_PERIOD:
            return
        self._published = now
        state = decode_remote(remote)
        self._message.header.stamp = self._clock.now().to_msg()
        self._message.axes = array("f", (state.lx, state.ly, state.rx, state.ry, state.L2))
        self._message.buttons = array("i", (name in state.buttons for name in BUTTONS))
        self._publisher.publish(self._message)

    def destroy(self, node: Node) -> None:
        """Stop publishing."""
        node.destroy_publisher(self._publisher)


def main(robot: str) -> int:
    """Run the bridge of the robot called `robot` until a signal or an error ends it; 0 after a signal."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    return run_hardware(f"{robot}_bridge", UnitreeHardware(robot), udp_only=True)
