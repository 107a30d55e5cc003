"""Checks of this computer and of the route to the robot, before any packet is sent, and the outcome of a check.

Checks of the computer only warn of causes of a loop below 500 Hz.
"""

import ctypes
import ipaddress
from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import TransportError
from unitree_lowlevel.codec import PERIOD
from unitree_lowlevel.network import Address, bound_socket, check_target

ROBOT_NETWORK = ipaddress.IPv4Network("192.168.123.0/24")
_CLOCK_NOT_SYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)


class Level(Enum):
    """Passed, passed with advice, or a reason not to start the robot."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


class Outcome(NamedTuple):
    """The level of a check and a message: the finding and the action to take."""

    level: Level
    message: str


ok, warning, failed = (partial(Outcome, level) for level in Level)


def check_network(target: Address, local_port: int) -> dict[str, Outcome]:
    """Check address, route and port. Checks that depend on a failed one are omitted."""
    try:
        (host, _port), local = check_target(target, local_port)
        outcomes = {"address": check_address(host, local)}
    except TransportError as error:
        return {"network": failed(str(error))}
    try:
        bound_socket(local_port).close()
        outcomes["port"] = ok(f"UDP port {local_port} of this computer is free")
    except TransportError as error:
        outcomes["port"] = failed(str(error))
    return outcomes


def check_address(host: str, local: str) -> Outcome:
    """Check that this computer, with the address `local`, is in the robot's network, not behind a router."""
    robot, here = ipaddress.IPv4Address(host), ipaddress.IPv4Address(local)
    if robot.is_loopback:
        return ok(f"{host} is this computer: a fake board")
    if robot in ROBOT_NETWORK and here not in ROBOT_NETWORK:
        return failed(
            f"packets to {host} would leave from {local}, through a router: give the interface of the robot's cable an "
            f"address in {ROBOT_NETWORK}, for example 192.168.123.162/24"
        )
    if robot not in ROBOT_NETWORK:
        return warning(f"{host} is not in the robots' network {ROBOT_NETWORK}; reached from {local}")
    return ok(f"{host}, reached from {local}")


def check_clock() -> Outcome:
    """Check the synchronisation of the clock, which recordings of two computers need."""
    buffer = ctypes.create_string_buffer(512)  # struct timex, all zero: read only
    state = ctypes.CDLL(None).adjtimex(buffer)
    if state == _CLOCK_NOT_SYNCHRONISED:
        return warning("this computer's clock is not synchronised: set up chrony, see docs/deployment.md, Clock")
    return ok("synchronised" if state >= 0 else "not reported")


def check_wake_up(lateness: Array) -> Outcome:
    """Check the lateness of this computer's wake-ups every 2 ms, (n,) [s]."""
    late = 1e3 * np.quantile(lateness, (0.5, 0.99, 1.0)) if lateness.size else np.zeros(3)
    found = f"woke up late by p50 {late[0]:.2f}, p99 {late[1]:.2f}, max {late[2]:.1f} ms, without real-time priority"
    if late[1] > 2e3 * PERIOD:
        return warning(f"{found}: stop other programs, set up the computer as in docs/deployment.md, Real time")
    return ok(found)
