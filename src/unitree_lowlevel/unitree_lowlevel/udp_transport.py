"""The transport in pure Python: one UDP socket and the codec; and whether a robot can be reached from here."""

from __future__ import annotations

import errno
import ipaddress
import socket
import time

from unitree_lowlevel.codec import Generation, WireError, decode_state, encode_command
from unitree_lowlevel.messages import LowCommand
from unitree_lowlevel.transport import LOCAL_PORT, Address, Age, Reception, TickOrder, TransportCounters, TransportError

_HIGHEST_PORT = 65535


def resolve(host: str) -> str:
    """The IPv4 address of a host, given by number or by name."""
    text = _numbers(host) if host and set(host) <= set("0123456789.") else _looked_up(host)
    address = ipaddress.IPv4Address(text)
    if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        raise TransportError(
            f"{text} is not the address of one robot: set the target to the robot's, as 192.168.123.10"
        )
    return text


def check_route(target: Address) -> str:
    """The address of this computer from which datagrams to target would leave; sends nothing."""
    host, port = resolve(target[0]), target[1]
    _check_port(port, lowest=1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))
        except OSError as error:
            raise _not_routed(host, error) from error
        return str(probe.getsockname()[0])


def check_target(target: Address, local_port: int) -> Address:
    """Check everything about a target that can be known without a datagram; returns it with the host resolved.

    Besides the name, the address and the route: a program must not be its own robot.
    """
    host, port = resolve(target[0]), target[1]
    local_host = check_route((host, port))
    if local_host == host and port == local_port:
        raise TransportError(
            f"the target {host}:{port} is this computer's own port, so commands would come back: "
            "set the target to the robot's address, or another local port"
        )
    return host, port


def bound_socket(port: int) -> socket.socket:
    """A UDP socket on this port of this computer that never waits; port 0 takes any that is free."""
    _check_port(port, lowest=0)
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.setblocking(False)
    try:
        bound.bind(("", port))
    except OSError as error:
        bound.close()
        raise _not_bound(port, error) from error
    return bound


def check_port_free(port: int) -> None:
    """Check that this computer's UDP port can be taken."""
    bound_socket(port).close()


def _numbers(host: str) -> str:
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        raise TransportError(
            f'"{host}" is not an IPv4 address, which is four numbers up to 255: correct the target, as 192.168.123.10'
        ) from None


def _looked_up(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM) if host else []
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise TransportError(
            f'no host called "{host}" is known: check the spelling, or give its address, as 192.168.123.10'
        )
    return str(found[0][4][0])


def _check_port(port: int, lowest: int) -> None:
    if not lowest <= port <= _HIGHEST_PORT:
        raise TransportError(f"a UDP port is a number from {lowest} to {_HIGHEST_PORT}, not {port}: correct it")


def _not_routed(host: str, error: OSError) -> TransportError:
    if isinstance(error, PermissionError):
        return TransportError(f"{host} is a broadcast address or closed by a firewall: set the target to the robot's")
    neighbour = host.rsplit(".", 1)[0] + ".162/24"
    return TransportError(
        f"there is no route to {host} ({error.strerror}): plug in the robot's cable and give this computer an "
        f"address in its network, as {neighbour}"
    )


def _not_bound(port: int, error: OSError) -> TransportError:
    if isinstance(error, PermissionError):
        return TransportError(f"UDP port {port} needs privileges: choose a local port of 1024 or above, as 8080")
    if error.errno == errno.EADDRINUSE:
        return TransportError(
            f"UDP port {port} is in use: another bridge or a program of the vendor's SDK is running; stop it first "
            f"(`ss -ulpn sport = :{port}` names it)"
        )
    return TransportError(f"UDP port {port} cannot be opened ({error.strerror}): choose another local port")


_LONGEST = 2048  # bytes; a longer datagram is cut here and refused for its size
_MOST_PER_CALL = 256  # more than a socket's buffer holds of states; a flood must not keep the caller


class WireTransport:
    """Sends commands to target and takes states from there only, from the very port that commands go to.

    target: host and port of the robot; local_port: where states arrive, 0 for any free port.
    """

    name = "wire"

    def __init__(self, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> None:
        self.counters = TransportCounters()
        self._generation = generation
        self._target = target
        self._local_port = local_port
        self._socket: socket.socket | None = None
        self._order = TickOrder()

    def open(self) -> None:
        self.close()
        self._target = check_target(self._target, self._local_port)
        self._socket = bound_socket(self._local_port)
        self._order = TickOrder()
        self.counters = TransportCounters()

    @property
    def local_port(self) -> int:
        """The UDP port at which states arrive."""
        return int(self._opened().getsockname()[1])

    def send(self, command: LowCommand) -> None:
        datagram, opened = encode_command(self._generation, command), self._opened()
        try:
            opened.sendto(datagram, self._target)
            self.counters.sent += 1
        except OSError:
            self.counters.send_errors += 1

    def receive(self) -> Reception | None:
        newest, opened = None, self._opened()
        for _ in range(_MOST_PER_CALL):
            try:
                datagram, source = opened.recvfrom(_LONGEST)
            except BlockingIOError:
                break
            except OSError:
                self.counters.receive_errors += 1
                continue
            newest = self._judged(datagram, source) or newest
        return newest

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _judged(self, datagram: bytes, source: Address) -> Reception | None:
        if source != self._target:
            self.counters.foreign += 1
            self.counters.last_foreign = source
            return None
        try:
            state = decode_state(self._generation, datagram)
        except WireError as error:
            self.counters.reject(error.kind, str(error))
            return None
        age = self._order.judge(state.tick)
        self.counters.count(age)
        return None if age is Age.OLD else Reception(state, time.monotonic())

    def _opened(self) -> socket.socket:
        if self._socket is None:
            raise TransportError("the transport is not open: open it first")
        return self._socket
