"""Checks of the way to the robot, before any packet is sent."""

from __future__ import annotations

import ipaddress
import socket
import sys
from pathlib import Path

from unitree_lowlevel.doctor.finding import Finding, failed, ok, warning
from unitree_lowlevel.network_check import check_port_free, check_target
from unitree_lowlevel.transport import TransportError

ROBOT_NETWORK = ipaddress.IPv4Network("192.168.123.0/24")
_INTERFACES = Path("/sys/class/net")
_ROUTES = Path("/proc/net/route")


def check_network(target: tuple[str, int], local_port: int) -> list[Finding]:
    """Address, route, interface and port; what depends on something that failed is left out."""
    try:
        host = check_target(target, local_port)[0]
        local = route_to(host, target[1])
    except TransportError as error:
        return [failed("network", str(error))]
    return [check_address(host, local), check_interface(host), check_port(local_port)]


def route_to(host: str, port: int) -> str:
    """The address of this computer from which packets to `host` leave."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])


def check_address(host: str, local: str) -> Finding:
    """Whether this computer is the robot's neighbour, and not a guest behind a router."""
    robot, here = ipaddress.IPv4Address(host), ipaddress.IPv4Address(local)
    if robot.is_loopback:
        return ok("address", f"{host} is this computer: a fake board")
    if robot in ROBOT_NETWORK and here not in ROBOT_NETWORK:
        return failed(
            "address",
            f"packets to {host} would leave from {local}, through a router: give the interface of the robot's cable an "
            f"address in {ROBOT_NETWORK}, as 192.168.123.162/24",
        )
    if robot not in ROBOT_NETWORK:
        return warning("address", f"{host} is not in {ROBOT_NETWORK}, where robots are; reached from {local}")
    return ok("address", f"{host}, reached from {local}")


def check_interface(host: str) -> Finding:
    """Whether packets leave through a cable."""
    name = interface_to(host)
    if name is None:
        return ok("interface", "this computer itself")
    if (_INTERFACES / name / "wireless").exists():
        return failed(
            "interface",
            f"{name} is Wi-Fi, whose gaps of 10 to 100 ms a robot at 500 Hz does not forgive: use the cable",
        )
    speed = _read(_INTERFACES / name / "speed")
    return ok("interface", f"{name}, {speed} Mbit/s" if speed.isdigit() else name)


def interface_to(host: str, routes: Path = _ROUTES) -> str | None:
    """The interface through which packets to `host` leave, by the kernel's table; None for this computer itself."""
    if ipaddress.IPv4Address(host).is_loopback:
        return None
    matching = []
    for line in routes.read_text().splitlines()[1:]:
        name, destination, *_, mask = line.split()[:8]
        network, bits = _native(destination), _native(mask)
        if int(ipaddress.IPv4Address(host)) & bits == network:
            matching.append((bits, name))
    return max(matching)[1] if matching else None


def check_port(local_port: int) -> Finding:
    """Whether this computer's port is free: one program commands a robot, not two."""
    try:
        check_port_free(local_port)
    except TransportError as error:
        return failed("port", str(error))
    return ok("port", f"UDP port {local_port} of this computer is free")


def _native(number: str) -> int:
    """An address as the kernel prints it: the network's bytes as a number of this machine."""
    return int.from_bytes(int(number, 16).to_bytes(4, sys.byteorder), "big")


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""  # the kernel refuses where a cable is not plugged in
