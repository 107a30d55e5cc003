"""Parts of several benchmarks: walks in curves, the memory of processes.

Importing this module makes ros_harness, the harness of the tests, importable.
"""

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "src/fcnet_ros/test/shared"))
from ros_harness import Client

CURVE = 5.0  # [s] between two changes of direction
START_TIMEOUT = 180.0  # [s] until programs are ready; a first start compiles, and the computer may be busy


def drive_curves(client: Client, duration: float, yaw_rate: float = 0.4) -> None:
    """Walk curves at 0.5 m/s and `yaw_rate` [rad/s] to either side in turn for `duration` [s]."""
    end, side = time.monotonic() + duration, 1
    while (left := end - time.monotonic()) > 0.0:
        client.drive(min(CURVE, left), vx=0.5, yaw_rate=yaw_rate * side)
        side = -side


def memory(process: int, kind: str) -> float | None:
    """Return the memory [MB] of a process, if the kernel reports it: "Rss", or "Pss" with its share of common pages."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return None
    return next((int(row.split()[1]) * 1024e-6 for row in text.splitlines() if row.startswith(f"{kind}:")), None)
