"""Decides whether a request may come in: a page of somebody else, open in the same browser, shall not move a robot."""

from __future__ import annotations

import ipaddress
import socket
from email.message import Message
from urllib.parse import urlsplit


def reason_to_refuse(headers: Message) -> str:
    """One sentence why a request with these headers is refused; empty where it is not.

    Host must be an address, localhost or this computer's name: a foreign name that was made to lead here (DNS
    rebinding) is none of them. Origin, which browsers send with whatever could do something, must be that of our page.
    A program that is no browser sends none.
    """
    host = headers.get("Host", "")
    if not _is_ours(host):
        return f"this monitor is not {host!r}; open it by its address, or as localhost"
    origin = headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return f"a page of {origin} asked; only the monitor's own page may"
    if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return "a page of another site asked; only the monitor's own page may"
    return ""


def is_loopback(host: str) -> bool:
    """Whether only programs on this computer can reach a server at `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_ours(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    ours = socket.gethostname().lower()
    if name in ("localhost", ours, f"{ours}.local"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
