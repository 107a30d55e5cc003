"""The I/O process of a bridge: transport and motor driver at 500 Hz, in a process of their own.

In one process with DDS the loop would wait for the interpreter lock, which real-time priority does not shorten. So this
process has no ROS, one thread and no garbage collection. Its parent, the bridge, starts it (io_link.py), sends it the
targets and receives every cycle. If the parent dies, the process damps the motors until a new bridge takes over.
"""

import errno
import gc
import logging
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from fcnet_core.control.timing import request_privileges
from fcnet_core.errors import RobotInUseError
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import GENERATIONS, damping_command
from unitree_lowlevel.driver import MotorDriver
from unitree_lowlevel.io_link import LONGEST, IoSettings, Report, Request, Response, Targets, encode_cycle
from unitree_lowlevel.network import resolve
from unitree_lowlevel.transport import make_transport

END_DAMPING = 0.12  # [s] of damping commands at the end, enough also on a lossy network
ORPHAN_DAMPING = 10.0  # [s] of damping commands after the bridge has died, in which a new bridge may take over
TAKEOVER_TIME = 1.0  # [s] for an I/O process without a bridge to exit
REPORT_PERIOD = 0.1  # [s] between two reports without changes
SHIFT = 0.1  # fraction of a period by which cycles move away from the arrivals of states
SHIFT_INTERVAL = 0.5  # [s] between two shifts: they cost at most 0.04 % of the rate
MOST_TARGETS = 16  # messages taken per cycle: the newest of each publisher, and a margin
_STEP = 0.01  # [s]


class ParentGone(Exception):
    """The bridge has exited or died: its sockets are closed."""


def lock_robot(target: tuple[str, int], takes_over: bool = True) -> socket.socket:
    """Lock the robot at this IP address and port for this process, until the returned socket is closed.

    The lock is the name of a socket: the kernel releases it when the process dies, while a lock file would remain. A
    message to the socket requests an I/O process without a bridge to exit; one with a bridge ignores it. takes_over:
    whether to send this request. Raises RobotInUseError if another process keeps the lock.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    name, deadline = "\0fcnet-robot-{}:{}".format(*target), time.monotonic() + TAKEOVER_TIME
    while True:
        try:
            lock.bind(name)
            return lock
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not takes_over or time.monotonic() > deadline:
                lock.close()
                if error.errno != errno.EADDRINUSE:
                    raise
                raise RobotInUseError(
                    "another bridge on this computer moves the robot at {}:{} already; stop it first".format(*target)
                ) from error
        with suppress(OSError):  # it has just exited, or its buffer is full of such requests
            lock.sendto(b"leave", name)
        time.sleep(_STEP)


class StatePhase:
    """Delays the loop's cycles slightly if they coincide with the arrivals of states.

    Robot and loop have the same period. If states arrive at about the time of a cycle, one cycle finds none and the
    next one finds two, of which the first is useless.
    """

    def __init__(self, period: float) -> None:
        self._shift = SHIFT * period
        self._received = 0
        self._missed = False
        self._shifted = float("-inf")

    def shift(self, received: int, now: float) -> float:
        """Return the delay [s] of the next cycles, after one at time `now` [s]; received: states in total."""
        arrived, self._received = received - self._received, received
        two_after_none = self._missed and arrived >= 2
        self._missed = arrived == 0
        if not two_after_none or now - self._shifted < SHIFT_INTERVAL:
            return 0.0
        self._shifted = now
        return self._shift


class IoProcess:
    """The loop, and the requests of its parent: `open`, `begin`, `close`, and methods of the driver.

    requests, data: sockets to the parent.
    """

    def __init__(self, settings: IoSettings, requests: socket.socket, data: socket.socket) -> None:
        robot = load_robot(settings.robot)
        self._settings, self._requests, self._data = settings, requests, data
        self._driver = MotorDriver(
            robot,
            settings.period,
            interpolation_time=settings.interpolation_time,
            stop_chords=settings.stop_chords,
            remote_lost=settings.remote_lost,
            allow_recovery=settings.allow_recovery,
        )
        self._damping = damping_command(robot.damping)
        self._longest_gap = robot.safety.max_cycle_gap
        self._transport = make_transport(
            settings.transport, GENERATIONS[settings.generation], (settings.host, settings.port), settings.local_port
        )
        self._lock: socket.socket | None = None
        self._began = self._closing = False
        self._took_over = False  # the lock, from a process that damped the robot until then
        self._warnings: list[tuple[int, str]] = []
        self._refusal = ""  # the driver's latest
        self._cycles = self._misses = 0
        self._condition: tuple[object, ...] = ()
        self._reported = float("-inf")
        self._methods: dict[str, Callable[..., Any]] = {
            "wait": lambda: None,
            "open": self._open,
            "begin": self._begin,
            "close": self._close,
            "activate": self._driver.activate,
            "deactivate": self._driver.deactivate,
            "set_gains": self._driver.set_gains,
            "emergency_stop": self._driver.emergency_stop,
            "recover": lambda: self._driver.recover(time.monotonic()),
            "reset": lambda: self._driver.reset(time.monotonic()),
        }

    def run(self) -> int:
        """Respond to requests until `begin`, then run cycles until `close` or the parent's death; leave the motors
        damped.

        Returns the exit code: 1 after an error, whose traceback is sent to the parent.
        """
        try:
            self._wait_to_begin()
            if self._closing:
                return 0
            self._requests.setblocking(False)
            self._data.setblocking(False)
            self._run_cycles()
        except ParentGone:
            if self._began or self._took_over:
                self._damp(ORPHAN_DAMPING)
            return 0
        except Exception:
            if not self._began:
                raise
            with suppress(ParentGone):
                self._send(msgspec.msgpack.encode(traceback.format_exc()[-LONGEST // 4 :]))
            self._damp(END_DAMPING)
            return 1
        self._damp(END_DAMPING)
        return 0

    def _wait_to_begin(self) -> None:
        """Respond to requests until `begin` or `close`. Send nothing, because another computer may move this robot,
        except after a takeover from a process without a bridge: continue its damping.
        """
        while not (self._began or self._closing):
            self._requests.setblocking(not self._took_over)
            self._take_request()
            if self._took_over:
                self._transport.send(self._damping)
                time.sleep(self._settings.period)

    def _run_cycles(self) -> None:
        period, transport, driver = self._settings.period, self._transport, self._driver
        phase = StatePhase(period)
        deadline = exchanged = time.monotonic()
        while not self._closing:
            deadline = self._wait_until(deadline + period)
            began = time.monotonic()
            self._take_targets()
            self._take_request()
            reception = transport.receive()
            now = time.monotonic()
            # If this process is stopped here, the bridge damps, and so does the driver in the next cycle.
            transport.send(driver.cycle(now, reception, transport.counters), until=now + self._longest_gap)
            since, exchanged = now - exchanged, now
            deadline += phase.shift(transport.counters.received, now)
            self._cycles += 1
            self._report(now)
            work = time.monotonic() - began
            self._send(encode_cycle(self._cycles, since, work, self._misses, reception))

    def _wait_until(self, deadline: float) -> float:
        """Sleep until the deadline; return it, or the latest one if periods were missed."""
        late = time.monotonic() - deadline
        if late < 0:
            time.sleep(-late)
            return deadline
        missed = int(late / self._settings.period)
        self._misses += missed
        return deadline + missed * self._settings.period

    def _take_targets(self) -> None:
        for _ in range(MOST_TARGETS):
            if (message := _receive(self._data)) is None:
                return
            targets = msgspec.msgpack.decode(message, type=Targets)
            if targets.position is None:
                refusal = self._driver.damp(targets.source)
            else:
                refusal = self._driver.set_targets(np.array(targets.position), targets.received, targets.source)
            self._refusal = refusal or self._refusal

    def _take_request(self) -> None:
        """Respond to one request, if any. The response to `open` carries the socket to the robot."""
        if (message := _receive(self._requests)) is None:
            return
        request = msgspec.msgpack.decode(message, type=Request)
        value, refusal, endpoints = None, None, list[int]()
        try:
            value = self._methods[request.name](*request.arguments)
            if request.name == "open" and (endpoint := self._transport.fileno()) is not None:
                endpoints = [endpoint]
        except (ValueError, OSError) as error:
            refusal = str(error)
        response = msgspec.msgpack.encode(Response(request.number, value, refusal))
        try:
            socket.send_fds(self._requests, [response], endpoints)
        except ConnectionError as error:
            raise ParentGone from error

    def _open(self) -> None:
        # The lock first: it makes a process without a bridge exit, which may still have the port.
        robot = (resolve(self._settings.host), self._settings.port)
        took_over = False
        try:
            self._lock = lock_robot(robot, takes_over=False)
        except RobotInUseError:
            self._lock, took_over = lock_robot(robot), True
        self._transport.open()
        self._took_over = took_over

    def _begin(self) -> None:
        settings = self._settings
        refused = request_privileges(settings.realtime_priority, settings.lock_memory, settings.cpu)
        self._warnings += [(logging.WARNING, text) for text in refused]
        self._transport.receive()  # drops old states
        gc.collect()
        gc.freeze()
        gc.disable()  # this process makes no reference cycles; a collection would be a pause
        self._began = True

    def _close(self) -> None:
        self._closing = True

    def _report(self, now: float) -> None:
        driver, counters = self._driver, self._transport.counters
        self._warnings += driver.take_events()
        condition = (driver.mode, driver.trip, driver.warnings, driver.target_refusal, driver.owner, driver.refused)
        if condition == self._condition and not self._warnings and now - self._reported < REPORT_PERIOD:
            return
        report = Report(
            mode=driver.mode.value,
            trip=str(driver.trip or ""),
            warnings=driver.warnings,
            target_refusal=driver.target_refusal,
            owner=driver.owner,
            refused=driver.refused,
            refusal=self._refusal,
            packet_loss=driver.packet_loss,
            link={
                "packets_sent": str(counters.sent),
                "packets_received": str(counters.received),
                "packets_rejected": ", ".join(f"{kind} {count}" for kind, count in sorted(counters.rejected.items())),
                "packets_foreign": str(counters.foreign),
                "packets_duplicate": str(counters.duplicates),
                "packets_old": str(counters.old),
                "send_errors": str(counters.send_errors),
            },
            events=self._warnings,
        )
        if self._send(msgspec.msgpack.encode(report)):
            self._condition, self._reported, self._warnings = condition, now, []

    def _send(self, message: bytes) -> bool:
        try:
            self._data.send(message)
        except BlockingIOError:  # the parent does not read
            return False
        except OSError as error:
            raise ParentGone from error
        return True

    def _damp(self, duration: float) -> None:
        """Send damping for `duration` [s]; without a parent, at most until another bridge requests the robot."""
        while self._is_requested_to_exit():
            pass  # requests that were queued before the parent died: their senders were rejected
        end = time.monotonic() + duration
        while time.monotonic() < end and not (duration == ORPHAN_DAMPING and self._is_requested_to_exit()):
            self._transport.send(self._damping)
            time.sleep(self._settings.period)

    def _is_requested_to_exit(self) -> bool:
        assert self._lock is not None
        try:
            return bool(self._lock.recv(LONGEST))
        except BlockingIOError:
            return False


def _receive(endpoint: socket.socket) -> bytes | None:
    """Return the next message, or None if there is none yet; raises ParentGone if the socket is closed."""
    try:
        message = endpoint.recv(LONGEST)
    except BlockingIOError:
        return None
    except OSError as error:
        raise ParentGone from error
    if not message:
        raise ParentGone
    return message


def main(arguments: list[str]) -> int:
    """Run the process; arguments: file descriptors of its sockets for requests and data. Returns the exit code."""
    # A terminal sends these also to the parent, which then stops this process damped, or dies, which damps as well.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    requests, data = (socket.socket(fileno=int(number)) for number in arguments)
    try:
        settings = msgspec.msgpack.decode(requests.recv(LONGEST), type=IoSettings)
        return IoProcess(settings, requests, data).run()
    except ParentGone:
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
