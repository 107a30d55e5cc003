"""What the monitor costs and what a browser sees of it: processor shares, and different snapshots drawn per second.

Run it in a shell after `. env.sh`, on an otherwise idle machine with chromium and chromedriver; four minutes:

    python benchmarks/monitor_load.py

Real processes: a walking Aliengo in MuJoCo with states at 250 Hz, and one behind a motor board and the bridge of the
real robot with states at 500 Hz; the page in a headless Chromium, which draws without a graphics card.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fcnet_ros.testing import Process, cpu_seconds, own_domain

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")
TIMEOUT = 60.0  # [s] for a response of the browser
SETTLING = 3.0  # [s]
# Counts the snapshots that were drawn with other joints than the one before.
COUNT = """
let last = "";
window.different = 0;
const draw = monitor.scene.draw.bind(monitor.scene);
monitor.scene.draw = (snapshot) => {
  draw(snapshot);
  const now = JSON.stringify([snapshot.joints, snapshot.trunk]);
  if (now !== last) window.different += 1;
  last = now;
};
"""
# Moves the slider "forward" to and fro, as a user does.
SLIDE = """
const slider = document.getElementById("vx");
window.sliding = setInterval(() => {
  slider.value = 0.2 + 0.1 * Math.sin(performance.now() / 500);
  slider.dispatchEvent(new Event("input"));
}, 50);
"""


class Browser:
    """A headless Chromium with one page, driven through the WebDriver protocol."""

    def __init__(self, folder: Path, address: str) -> None:
        self._driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        lines = iter(self._driver.stdout or ())
        port = next(found[1] for line in lines if (found := re.search(r"successfully on port (\d+)", line)))
        self._base = f"http://127.0.0.1:{port}/session"
        options = {"args": [*FLAGS, f"--user-data-dir={folder}"], "binary": shutil.which("chromium")}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        session = self._call("", wanted)
        self.process = int(session["capabilities"]["goog:processID"])
        self._base += f"/{session['sessionId']}"
        self._call("/url", {"url": address})

    def run(self, script: str) -> Any:
        """What a piece of JavaScript returns."""
        return self._call("/execute/sync", {"script": script, "args": []})

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_error: object) -> None:
        self._call("", method="DELETE")
        self._driver.terminate()
        self._driver.wait()

    def _call(self, path: str, body: Any = None, method: str = "POST") -> Any:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, content, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)["value"]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    print(f"{'':<34} {'monitor':>8} {'browser':>8} {'received':>9} {'drawn':>6} {'idle':>6}")
    print(f"{'':<34} {'[% of a core]':>17} {'[snapshots/s]':>16} {'[%]':>6}")
    for name, backend in (("250 Hz", "mujoco"), ("bridge, 500 Hz", "desk")):
        with tempfile.TemporaryDirectory() as folder:
            _measure(name, Path(folder), seconds, f"backend:={backend}")


def _measure(name: str, folder: Path, seconds: float, *arguments: str) -> None:
    command = ["ros2", "launch", "fcnet_controller", "aliengo.launch.py", "monitor:=true", "monitor_port:=0"]
    with own_domain() as domain, Process([*command, *arguments], domain) as launch:
        address = launch.until_printed(r"open (http://\S+) in a browser")[1]
        monitor = int(launch.until_printed(r"\[monitor-\d+\]: process started with pid \[(\d+)\]")[1])
        launch.until_printed("mode: walking")
        time.sleep(SETTLING)
        _print_row(f"{name}, no page", monitor, seconds)
        with Browser(folder, address) as browser:
            time.sleep(SETTLING)
            browser.run(COUNT)
            _print_row(f"{name}, a page", monitor, seconds, browser)
            browser.run(SLIDE)
            time.sleep(SETTLING)
            _print_row(f"{name}, its sliders drive", monitor, seconds, browser)
            if (source := browser.run("return monitor.snapshot.source")) != "monitor":
                sys.exit(f"monitor_load: the robot is driven by {source!r} and not by the page's sliders")


def _print_row(name: str, monitor: int, seconds: float, browser: Browser | None = None) -> None:
    parts: dict[str, Callable[[], float]] = {"monitor": lambda: cpu_seconds(monitor), "idle": _idle}
    if browser is not None:
        parts |= {
            "browser": lambda: sum(map(cpu_seconds, _family(browser.process))),
            "drawn": lambda: float(browser.run("return window.different")),
        }
    begun, before = time.monotonic(), {part: read() for part, read in parts.items()}
    time.sleep(seconds)
    after, took = {part: read() for part, read in parts.items()}, time.monotonic() - begun
    rate = {part: (after[part] - before[part]) / took for part in parts}
    seen = f"{'':>25}"
    if browser is not None:
        received = browser.run(
            "return parseInt(document.getElementById('link').textContent)"
        )  # over the last two seconds
        seen = f"{100 * rate['browser']:8.0f} {received:9.0f} {rate['drawn']:6.1f}"
    print(
        f"{name:<34} {100 * rate['monitor']:8.1f} {seen} {100 * rate['idle'] / (os.cpu_count() or 1):6.0f}", flush=True
    )


def _family(process: int) -> list[int]:
    """A process and all that come from it."""
    found = [process]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def _idle() -> float:
    """Seconds that all processors together have been idle."""
    return int(Path("/proc/stat").read_text().split()[4]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
