"""Runs the commands of the tasks of docs/first_hour.md in order and prints the duration of each task.

    python tools/first_hour.py

Run it in a shell after `. env.sh`. A launch without a demo runs until the end of its task. Keys are sent through the
pseudo-terminal of `script`; of the monitor the page is loaded. If a task fails, the others still run, and the exit code
is 1.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "src/fcnet_ros/test/shared"))
from ros_harness import Process, own_domain

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ROOT / "runs" / "first_hour"
LIMIT = 600.0  # [s] for a command, and for an event of a robot
WALKS = 8.0  # [s] for which a robot without commands is watched


def tasks() -> dict[str, list[str]]:
    """Return the commands of every task, by its title."""
    page = (ROOT / "docs" / "first_hour.md").read_text(encoding="utf-8")
    sections = [section.partition("\n") for section in re.split(r"(?m)^## ", page)[1:]]
    found = {title: re.findall(r"(?m)^    (\S.*)$", text) for title, _, text in sections}
    return {title: commands for title, commands in found.items() if commands}


@contextmanager
def robot(command: str, domain: int) -> Iterator[Process]:
    """Launch a robot, wait until it walks, load the page of its monitor, if any, and interrupt it at the end."""
    monitor = ["monitor_port:=0"] if "monitor:=true" in command else []
    with Process([*command.split(), *monitor], domain) as launch:
        launch.until_printed("mode: walking", LIMIT)
        if monitor:
            address = launch.until_printed(r"open (http://\S+) in a browser", LIMIT)[1]
            urllib.request.urlopen(address, timeout=LIMIT).close()  # OSError for an error status
        yield launch


def run(command: str, domain: int) -> None:
    """Run a command to its end. Raises AssertionError if its exit code is not 0."""
    with Process(["bash", "-c", command], domain) as process:
        assert process.wait(LIMIT) == 0, f"{command}\n{process.output}"


def by_keyboard(commands: list[str], domain: int) -> None:
    """Press w in the keyboard's terminal until the robot follows it."""
    launched, keyboard = commands
    pressed = f"while sleep 0.5; do printf w; done | script -qec '{keyboard}' /dev/null"
    with robot(launched, domain) as launch, Process(["bash", "-c", pressed], domain):
        launch.until_printed("keyboard (takes over|is in control)", LIMIT)


def one_after_the_other(commands: list[str], domain: int) -> None:
    """Run each command to its end, or a launch without a demo while the commands after it run."""
    with ExitStack() as launched:
        for command in commands:
            if command.startswith("ros2 launch") and "demo:=" not in command:
                launched.enter_context(robot(command, domain))
                time.sleep(WALKS)
            else:
                run(command, domain)


def main() -> int:
    """Run the tasks; return 1 if one fails."""
    os.chdir(ROOT)
    shutil.rmtree(WRITTEN, ignore_errors=True)
    WRITTEN.mkdir(parents=True, exist_ok=True)
    failed, start = 0, time.monotonic()
    with own_domain() as domain:
        for title, commands in tasks().items():
            task_start = time.monotonic()
            try:
                run_task = by_keyboard if "teleop_keyboard" in commands[-1] else one_after_the_other
                run_task(commands, domain)
                how = "done"
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                print(*str(error).splitlines()[-30:], sep="\n", file=sys.stderr)
                failed, how = failed + 1, "FAILED"
            print(f"{title:<30} {time.monotonic() - task_start:5.0f} s  {how}", flush=True)
    print(f"{'all':<30} {time.monotonic() - start:5.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
