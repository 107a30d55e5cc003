"""Checks of this computer and of the way to the robot, before any packet is sent."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import resource
import socket
import sys
from pathlib import Path

import numpy as np

from unitree_lowlevel.codec import Generation
from unitree_lowlevel.doctor.recording import PERIOD, Recording
from unitree_lowlevel.doctor.result import Finding, failed, ok, warning
from unitree_lowlevel.sdk_transport import find_sdk
from unitree_lowlevel.transport import TransportError
from unitree_lowlevel.udp_transport import check_port_free, check_target

_CPU = Path("/sys/devices/system/cpu")
_PRIORITY = 20  # enough for one loop above everything ordinary; kernel threads of the network run at 50
_LOCKED_BYTES = 1 << 30  # what bridge and controller together hold in memory, with room
_CLOCK_NOT_SYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)
_HELP = "see docs/deployment.md, Real time"


def check_computer(recording: Recording | None) -> list[Finding]:
    """All of them; `recording` tells how late this computer woke up, where there is one."""
    findings = [check_priority(), check_memory_lock(), check_governor(), check_cores(), check_clock()]
    return findings if recording is None else [*findings, check_wake_up(recording)]


def check_priority() -> Finding:
    """Whether a program of this user may ask for SCHED_FIFO."""
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    if os.geteuid() == 0 or limit == resource.RLIM_INFINITY or limit >= _PRIORITY:
        return ok("priority", "this user may run at a real-time priority")
    return warning(
        "priority", f"real-time priority is limited to {limit}, {_PRIORITY} is wanted: raise rtprio, {_HELP}"
    )


def check_memory_lock() -> Finding:
    """Whether a program of this user may keep itself in memory."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if os.geteuid() == 0 or limit == resource.RLIM_INFINITY or limit >= _LOCKED_BYTES:
        return ok("memory", "this user may lock memory")
    return warning("memory", f"memory lock is limited to {limit >> 20} MiB, 1024 is wanted: raise memlock, {_HELP}")


def check_governor() -> Finding:
    """Whether the processor may slow itself down."""
    files = sorted(_CPU.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    slow = sorted({text for file in files if (text := file.read_text().strip()) != "performance"})
    if not slow:
        return ok(
            "governor", "performance" if files else "this computer shows none (a virtual machine, or a fixed clock)"
        )
    return warning("governor", f"the processor's governor is {', '.join(slow)}, not performance: {_HELP}")


def check_cores() -> Finding:
    """How many there are, and whether one is kept free for the bridge."""
    cores = os.cpu_count() or 1
    isolated = (_CPU / "isolated").read_text().strip() if (_CPU / "isolated").is_file() else ""
    if cores < 2:
        return warning("cores", "there is one core: bridge and controller need two")
    if isolated:
        return ok("cores", f"{cores}, of which {isolated} isolated: give one to the bridge with its parameter cpu")
    return ok("cores", f"{cores}, none isolated; that helps on a busy computer, {_HELP}")


def check_clock() -> Finding:
    """Whether this computer's time follows that of others; recordings of two computers fit together only then."""
    buffer = ctypes.create_string_buffer(512)  # struct timex, all zero: only ask
    state = ctypes.CDLL(None).adjtimex(buffer)
    if state == _CLOCK_NOT_SYNCHRONISED:
        return warning("clock", "this computer's clock follows no other: set up chrony, see docs/deployment.md, Clock")
    return ok("clock", "synchronised" if state >= 0 else "this computer does not tell")


def check_wake_up(recording: Recording) -> Finding:
    """How late this computer let the doctor send its packets."""
    late = 1e3 * np.quantile(recording.lateness, (0.5, 0.99, 1.0)) if recording.lateness.size else np.zeros(3)
    told = f"woke up late by p50 {late[0]:.2f}, p99 {late[1]:.2f}, max {late[2]:.1f} ms, without real-time priority"
    if late[1] > 2e3 * PERIOD:
        return warning("wake-up", f"{told}: this computer is busy, end what it does not need, {_HELP}")
    return ok("wake-up", told)


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


def check_sdk(transport: str, generation: Generation) -> Finding:
    """Which one is installed, and whether it speaks this robot's generation where it is wanted."""
    try:
        sdk = find_sdk()
    except TransportError as error:
        return (
            failed("sdk", str(error)) if transport == "sdk" else ok("sdk", "none installed, and none needed for wire")
        )
    told = f"{sdk.module.__name__} speaks {sdk.generation.name}"
    if transport == "sdk" and sdk.generation is not generation:
        return failed("sdk", f"{told}, this robot {generation.name}: use --transport wire, or install the robot's SDK")
    return ok("sdk", told if transport == "sdk" else f"{told}, not needed for wire")
