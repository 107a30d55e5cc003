"""Faults from the field for fault_matrix.py: distortions, restarted boards, paused, killed and starved processes,
changed files, parameters and floods of requests.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distortions import DISTORTIONS, FALLS, RESTARTED
from fault_cases import LET_GO, TOLERATED, UNCHANGED, FaultCase, signalled, stopped
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import GetParameters, ListParameters, SetParameters
from rclpy.parameter import Parameter
from ros_harness import Client
from std_srvs.srv import SetBool, Trigger

from fcnet_core.model_file import shipped_model
from fcnet_core.robot import ROBOT_FOLDER

if TYPE_CHECKING:
    from fault_rig import FaultRig as Rig

PROCESSES = ("controller", "bridge", "io")
_RELEASED = f"{LET_GO} | trip io_process"
_ANY = f"{UNCHANGED} | {FALLS}"
FEW_FILES = 3


def _reboot(silence: float, following: str, soft: str) -> FaultCase:
    """A board that is silent, then starts at tick 0 with motors off."""
    return FaultCase(
        f"board reboots in {silence:g} s",
        following,
        soft,
        begin=lambda rig: rig.board.reboot(silence),
        end=lambda _rig: time.sleep(silence + 0.3),
    )


def _limited(process: str, what: int, value: int, name: str) -> FaultCase:
    """A lower resource limit of a running process; requests follow."""

    def begin(rig: Rig) -> None:
        number = rig.process_id(process)
        resource.prlimit(number, what, (value, resource.prlimit(number, what)[1]))
        rig.client.call(f"{rig.bridge}/reset")
        rig.client.call("controller/reset")

    def end(rig: Rig) -> None:
        number = rig.process_id(process)
        hard = resource.prlimit(number, what)[1]
        resource.prlimit(number, what, (hard, hard))

    return FaultCase(f"{process} without {name}", UNCHANGED, TOLERATED, 0.3, begin=begin, end=end)


def _io_killed_without_files(rig: Rig) -> None:
    number = rig.process_id("bridge")
    hard = resource.prlimit(number, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(number, resource.RLIMIT_NOFILE, (FEW_FILES, hard))
    os.kill(rig.process_id("io"), signal.SIGKILL)
    time.sleep(0.3)
    response = rig.client.call(f"{rig.bridge}/reset")
    assert not response.success, "an I/O process was started without file descriptors"
    assert response.message, "a reset that fails has a reason"
    resource.prlimit(number, resource.RLIMIT_NOFILE, (hard, hard))


def _busy(niceness: int) -> FaultCase:
    """Eight busy processes."""
    program = f"import os, time; os.nice({niceness}); end = time.time() + 3\nwhile time.time() < end: pass"

    def begin(_rig: Rig) -> None:
        for _ in range(8):
            threading.Thread(target=subprocess.run, args=([sys.executable, "-c", program],)).start()

    name = f"8 busy processes, nice {niceness}"
    return FaultCase(name, _ANY, f"{TOLERATED} | warning loop_late", 3.0, begin=begin, end=lambda _rig: time.sleep(3.0))


def _file(which: str, what: str, change: Callable[[Path], object]) -> FaultCase:
    """A change of a file that the programs have read: "policy" or "robot"."""
    saved = bytearray()

    def begin(rig: Rig) -> None:
        saved[:] = rig.files[which].read_bytes()
        change(rig.files[which])

    def end(rig: Rig) -> None:
        rig.files[which].unlink(missing_ok=True)
        rig.files[which].write_bytes(saved)

    return FaultCase(f"{which} file {what}", UNCHANGED, TOLERATED, begin=begin, end=end)


def _overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xff" * 4096)


def _replace(path: Path) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(b"nothing")
    other.rename(path)


FILE_CHANGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: os.truncate(path, 1000),
    "overwritten": _overwrite,
    "replaced": _replace,
    "deleted": Path.unlink,
}
ODD_VALUES: tuple[Any, ...] = (True, False, 0, 10**9, -1.5, 1e300, "", "x" * 5000, [1, 2], ["a"], [float("nan")], None)


def _parameters(node: str) -> FaultCase:
    """Every parameter of a node is set to odd values; accepted values are set back."""

    def begin(rig: Rig) -> None:
        name = rig.bridge if node == "bridge" else node

        def set_parameter(parameter: ParameterMessage) -> bool:
            (result,) = rig.client.call(f"{name}/set_parameters", SetParameters, parameters=[parameter]).results
            return bool(result.successful)

        for parameter in rig.client.call(f"{name}/list_parameters", ListParameters).result.names:
            (before,) = rig.client.call(f"{name}/get_parameters", GetParameters, names=[parameter]).values
            for value in ODD_VALUES:
                if set_parameter(Parameter(parameter, value=value).to_parameter_msg()):
                    set_parameter(ParameterMessage(name=parameter, value=before))

    return FaultCase(f"every parameter of the {node}", UNCHANGED, TOLERATED, 10.0, begin=begin)


def _flood(what: str, following: str, soft: str, *services: str) -> FaultCase:
    """Six clients call services in turn for 2.5 s without waiting for responses."""

    def begin(rig: Rig) -> None:
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(rig.domain, f"flood_{number}")) for number in range(6)]
            calls = []
            for name, client in product(services, clients):
                kind, request = (SetBool, {"data": True}) if name.endswith("stop") else (Trigger, {})
                service = client.node.create_client(kind, name.replace("bridge", rig.bridge))
                calls.append((service, kind.Request(**request)))
            end = time.monotonic() + 2.5
            while time.monotonic() < end:
                for service, request in calls:
                    service.call_async(request)
                    time.sleep(0.0003)

    return FaultCase(f"flood of {what} of 6 clients", following, soft, 3.0, begin=begin)


def _transition(node: str, name: str, following: str, back: str = "", ends: str = "") -> FaultCase:
    """A lifecycle transition in the middle of a motion, and another one back."""

    def change(rig: Rig, transition: str) -> None:
        rig.client.change_state(rig.bridge if node == "bridge" else node, transition)

    def end(rig: Rig) -> None:
        if back:
            change(rig, back)
        if ends:
            rig.end(ends)

    begin = lambda rig: change(rig, name)  # noqa: E731
    return FaultCase(f"{node}: {name}", following, TOLERATED, 0.3, begin=begin, end=end, ends=ends)


@contextmanager
def changeable_files(robot: str) -> Iterator[tuple[Path, dict[str, Path]]]:
    """Yield a parameter file that names copies of robot file and policy, and these copies."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"robot": Path(folder) / f"{robot}.yaml", "policy": Path(folder) / "policy.safetensors"}
        shutil.copy(ROBOT_FOLDER / f"{robot}.yaml", files["robot"])
        shutil.copy(shipped_model(robot), files["policy"])
        parameters = Path(folder) / "parameters.yaml"
        parameters.write_text(
            f"{robot}_bridge: {{ros__parameters: {{robot_file: {files['robot']}}}}}\n"
            f"controller: {{ros__parameters: {{policy: {files['policy']}}}}}\n"
        )
        yield parameters, files


FIELD = (
    *DISTORTIONS,
    # The board's power.
    _reboot(1.5, "trip stale_state", "warning stale_state"),
    _reboot(0.06, RESTARTED, RESTARTED),
    # Processes.
    *(stopped(name, 0.05, _ANY) for name in PROCESSES),
    *(stopped(name, 5.0, _RELEASED) for name in PROCESSES),
    signalled("controller ended (SIGTERM)", signal.SIGTERM, "controller", following=_RELEASED, ends="controller"),
    signalled("controller and io killed", signal.SIGKILL, "controller", "io", ends="controller"),
    signalled("bridge ended (SIGINT)", signal.SIGINT, "bridge", following=_RELEASED, ends="bridge"),
    *(signalled(f"io gets {number.name}", number, "io", following=UNCHANGED)
      for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)),
    *(_busy(niceness) for niceness in (0, -10)),
    *(_limited(name, resource.RLIMIT_AS, 1 << 20, "further memory") for name in PROCESSES),
    *(_limited(name, resource.RLIMIT_NOFILE, FEW_FILES, "further file descriptors") for name in PROCESSES),
    FaultCase("io killed, bridge without further file descriptors", _RELEASED, "trip io_process",
              begin=_io_killed_without_files),
    # Files, parameters, requests.
    *(_file(which, what, change) for which in ("policy", "robot") for what, change in FILE_CHANGES.items()),
    *(_parameters(node) for node in ("bridge", "controller")),
    _flood("mode requests", _ANY, TOLERATED, "controller/stand_up", "controller/walk", "controller/reset",
           "controller/lie_down"),
    _flood("stops and resets", f"trip emergency_stop | {_RELEASED}", f"trip emergency_stop | {TOLERATED}",
           "bridge/emergency_stop", "bridge/reset", "controller/reset", "controller/stand_up"),
    *(_transition(node, "deactivate", _RELEASED, back="activate") for node in ("controller", "bridge")),
    *(_transition(node, "cleanup", UNCHANGED) for node in ("controller", "bridge")),  # not of an active node
    *(_transition(node, "active_shutdown", _RELEASED, ends=node) for node in ("controller", "bridge")),
)  # fmt: skip
