"""Checks of this computer, of the vendor's module and of the route to the robot, before any packet is sent.

Checks of the computer only warn of causes of a loop below 500 Hz.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
from pathlib import Path

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import TransportError
from unitree_lowlevel.codec import PERIOD, Generation
from unitree_lowlevel.doctor import Outcome, failed, ok, warning
from unitree_lowlevel.network import Address, bound_socket, check_route, check_target
from unitree_lowlevel.sdk_transport import find_sdk

ROBOT_NETWORK = ipaddress.IPv4Network("192.168.123.0/24")
_INTERFACES = Path("/sys/class/net")
_ROUTES = Path("/proc/net/route")
_CLOCK_NOT_SYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)


def check_network(target: Address, local_port: int) -> dict[str, Outcome]:
    """Check address, route, interface and port. Checks that depend on a failed one are omitted."""
    try:
        host, port = check_target(target, local_port)
        local = check_route((host, port))
    except TransportError as error:
        return {"network": failed(str(error))}
    outcomes = {"address": check_address(host, local), "interface": _check_interface(host)}
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


def interface_to(host: str, routes: Path = _ROUTES) -> str | None:
    """Return the interface on the route to `host`, from the kernel's table; None for this computer itself."""
    if ipaddress.IPv4Address(host).is_loopback:
        return None
    matching = []
    for line in routes.read_text().splitlines()[1:]:
        name, destination, *_, mask = line.split()[:8]
        # Network bytes as a number in this machine's byte order.
        network, bits = (socket.ntohl(int(number, 16)) for number in (destination, mask))
        if int(ipaddress.IPv4Address(host)) & bits == network:
            matching.append((bits, name))
    return max(matching)[1] if matching else None


def check_sdk(transport: str, generation: Generation) -> Outcome:
    """Check that the vendor's module uses the robot's generation, if the transport is "sdk"."""
    needed = transport == "sdk"
    try:
        sdk = find_sdk(generation if needed else None)
    except TransportError as error:
        return failed(str(error)) if needed else ok("not installed, not needed for wire")
    found = f"{sdk.module.__name__} uses {sdk.generation.name}"
    return ok(found if needed else f"{found}, not needed for wire")


def check_computer(lateness: Array | None) -> dict[str, Outcome]:
    """Run all checks of the computer; lateness: of its wake-ups every 2 ms (n,) [s], None if not recorded."""
    outcomes = {"clock": _check_clock()}
    return outcomes if lateness is None else {**outcomes, "wake-up": _check_wake_up(lateness)}


def _check_interface(host: str) -> Outcome:
    name = interface_to(host)
    if name is None:
        return ok("this computer itself")
    if (_INTERFACES / name / "wireless").exists():
        return failed(f"{name} is Wi-Fi, with gaps of 10 to 100 ms, too long for 500 Hz: use the cable")
    try:
        speed = (_INTERFACES / name / "speed").read_text().strip()
    except OSError:
        speed = ""  # no cable is plugged in
    return ok(f"{name}, {speed} Mbit/s" if speed.isdigit() else name)


def _check_clock() -> Outcome:
    """Check the synchronisation of the clock, which recordings of two computers need."""
    buffer = ctypes.create_string_buffer(512)  # struct timex, all zero: read only
    state = ctypes.CDLL(None).adjtimex(buffer)
    if state == _CLOCK_NOT_SYNCHRONISED:
        return warning("this computer's clock is not synchronised: set up chrony, see docs/deployment.md, Clock")
    return ok("synchronised" if state >= 0 else "not reported")


def _check_wake_up(lateness: Array) -> Outcome:
    late = 1e3 * np.quantile(lateness, (0.5, 0.99, 1.0)) if lateness.size else np.zeros(3)
    found = f"woke up late by p50 {late[0]:.2f}, p99 {late[1]:.2f}, max {late[2]:.1f} ms, without real-time priority"
    if late[1] > 2e3 * PERIOD:
        return warning(f"{found}: stop other programs, set up the computer as in docs/deployment.md, Real time")
    return ok(found)
