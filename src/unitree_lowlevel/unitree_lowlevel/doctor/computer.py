"""Checks of this computer: whether it can keep 500 Hz. They only warn; a desk needs none of it."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

import numpy as np

from unitree_lowlevel.doctor.finding import Finding, ok, warning
from unitree_lowlevel.doctor.recording import PERIOD, Recording

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
