"""Checks of addresses, routes and UDP ports before a datagram is sent."""

import errno
import ipaddress
import socket

from fcnet_core.errors import TransportError

Address = tuple[str, int]  # host and UDP port


def resolve(host: str) -> str:
    """Return the IPv4 address of a host, given as number or name; raises TransportError."""
    is_number = set(host) <= set("0123456789.")
    try:
        text = host if is_number else str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM)[0][4][0])
        address = ipaddress.IPv4Address(text)
    except (OSError, ValueError):
        raise TransportError(
            f'"{host}" is neither an IPv4 address nor a known host: correct the target, as 192.168.123.10'
        ) from None
    if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        raise TransportError(
            f"{text} is not the address of one robot: set the target to the robot's, as 192.168.123.10"
        )
    return text


def check_target(target: Address, local_port: int) -> tuple[Address, str]:
    """Check name, port and route of the target, and that it is not this program's own port; sends nothing.

    Returns the target with its host resolved, and this computer's address on the route; raises TransportError.
    """
    host, port = resolve(target[0]), target[1]
    _check_port(port, lowest=1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))
        except PermissionError as error:
            raise TransportError(
                f"{host} is a broadcast address or closed by a firewall: set the target to the robot's"
            ) from error
        except OSError as error:
            neighbour = host.rsplit(".", 1)[0] + ".162/24"
            raise TransportError(
                f"there is no route to {host} ({error.strerror}): plug in the robot's cable and give this computer an "
                f"address in its network, as {neighbour}"
            ) from error
        local = str(probe.getsockname()[0])
    if (host, port) == (local, local_port):
        raise TransportError(
            f"the target {host}:{port} is this computer's own port, so commands would come back: "
            "set the target to the robot's address, or another local port"
        )
    return (host, port), local


def bound_socket(port: int, host: str = "") -> socket.socket:
    """Return a non-blocking UDP socket at this port of this computer, 0 for any free one; raises TransportError."""
    _check_port(port, lowest=0)
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.setblocking(False)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        if isinstance(error, PermissionError):
            problem = f"UDP port {port} needs privileges: choose a local port of 1024 or above, as 8080"
        elif error.errno == errno.EADDRNOTAVAIL:
            problem = f"{host} is not an address of this computer: choose one of its own, or 127.0.0.1"
        elif error.errno == errno.EADDRINUSE:
            problem = (
                f"UDP port {port} is in use: another bridge or a program of the vendor is running; stop it first "
                f"(`ss -ulpn sport = :{port}` names it)"
            )
        else:
            problem = f"UDP port {port} cannot be opened ({error.strerror}): choose another local port"
        raise TransportError(problem) from error
    return bound


def _check_port(port: int, lowest: int) -> None:
    if not lowest <= port <= 65535:
        raise TransportError(f"a UDP port is a number from {lowest} to 65535, not {port}: correct it")
