"""Faults from the field for fault_matrix.py: wrong sensors, odd lines, restarted boards, paused, killed and starved
processes, changed files, parameters and floods of requests.
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
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distortions import CONTENTS, LINES
from fault_cases import CONTROLLER_FAULT, DAMPED, TOLERATED, FaultCase
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
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
_FALLS = "trip tilt | trip fall_rate"
_IMU = f"trip frozen_state | trip velocity_mismatch | {_FALLS}"
_JOINT = f"trip velocity_mismatch | trip joint_error | trip joint_position | {_FALLS} | {CONTROLLER_FAULT}"
_BUSY = f"{DAMPED} | {CONTROLLER_FAULT} | trip io_process | trip loop_late | warning loop_late"  # of a busy computer
_LET_GO = f"{DAMPED} | {CONTROLLER_FAULT} | trip io_process"
_ANY = f"{TOLERATED} | {_BUSY} | {_FALLS}"
_RESTARTED, _OLD, _TICK = "warning board_restarted", "warning old_states", "warning tick_jump"
_UNCHANGED = f"{TOLERATED} | {_BUSY}"  # the fault changes nothing; the attack itself takes time from the processes
FEW_FILES = 3


def _distorted(name: str, following: str, soft: str = "", deadline: float = 1.0, lasting: float = 0.0) -> FaultCase:
    """A fault of CONTENTS or LINES, observed from `lasting` [s] after its beginning; soft: as a warning, or none."""

    def begin(rig: Rig) -> None:
        rig.board.distort(name)
        time.sleep(lasting)

    assert name in CONTENTS or name in LINES, name
    soft = soft or f"{following.replace('trip', 'warning')} | {TOLERATED}"
    return FaultCase(name, following, soft, deadline, begin=begin, end=lambda rig: rig.board.distort(""))


def _reboot(silence: float, following: str, soft: str) -> FaultCase:
    """A board that is silent, then starts at tick 0 with motors off."""
    name = f"board reboots in {silence:g} s"
    wait = lambda _rig: time.sleep(silence + 0.3)  # noqa: E731
    return FaultCase(name, following, soft, begin=lambda rig: rig.board.reboot(silence), end=wait)


def _signalled(
    name: str, processes: Iterable[str], number: signal.Signals, following: str, lasting: float = 0.0, ends: str = ""
) -> FaultCase:
    """A signal to several processes; SIGSTOP for `lasting` [s]."""

    def begin(rig: Rig) -> None:
        numbers = [rig.process_id(process) for process in processes]
        for process in numbers:
            with suppress(ProcessLookupError):
                os.kill(process, number)
            if number is signal.SIGSTOP:
                threading.Timer(lasting, os.kill, (process, signal.SIGCONT)).start()

    def end(rig: Rig) -> None:
        time.sleep(lasting + 0.7)
        if ends and number is not signal.SIGKILL:
            rig.end(ends)

    soft = f"{TOLERATED} | trip io_process | {DAMPED}"
    return FaultCase(name, following, soft, 0.15, begin=begin, end=end, ends=ends)


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

    return FaultCase(f"{process} without {name}", _UNCHANGED, TOLERATED, 0.3, begin=begin, end=end)


def _io_killed_without_files(rig: Rig) -> None:
    number = rig.process_id("bridge")
    hard = resource.prlimit(number, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(number, resource.RLIMIT_NOFILE, (FEW_FILES, hard))
    rig.send("io", signal.SIGKILL)
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

    return FaultCase(f"{which} file {what}", _UNCHANGED, TOLERATED, begin=begin, end=end)


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

    return FaultCase(f"every parameter of the {node}", _UNCHANGED, TOLERATED, 10.0, begin=begin)


def _flood(what: str, following: str, soft: str, *services: str) -> FaultCase:
    """Six clients call services in turn for 2 s without waiting for responses."""

    def call(rig: Rig, client: Client, number: int, end: float) -> None:
        kinds = {name: SetBool if name.endswith("stop") else Trigger for name in services}
        open_services = [
            (client.node.create_client(kind, name.replace("bridge", rig.bridge)), kind) for name, kind in kinds.items()
        ]
        while time.monotonic() < end:
            service, kind = open_services[number % len(open_services)]
            service.call_async(kind.Request(data=True) if kind is SetBool else kind.Request())
            number += 1
            time.sleep(0.002)

    def begin(rig: Rig) -> None:
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(rig.domain, f"flood_{number}")) for number in range(6)]
            end = time.monotonic() + 2.5
            threads = [threading.Thread(target=call, args=(rig, one, at, end)) for at, one in enumerate(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    return FaultCase(f"flood of {what} of 6 clients", following, soft, 3.0, begin=begin)


def _transition(node: str, name: str, following: str, back: str = "", ends: str = "") -> FaultCase:
    """A lifecycle transition in the middle of a motion, and another one back."""

    def change(rig: Rig, transition: str) -> None:
        number = getattr(Transition, f"TRANSITION_{transition.upper()}")
        path = f"{rig.bridge if node == 'bridge' else node}/change_state"
        rig.client.call(path, ChangeState, transition=Transition(id=number))

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
    # The IMU.
    *(_distorted(name, "trip frozen_state", deadline=0.6)
      for name in ("IMU frozen", "gyro frozen", "attitude frozen", "attitude always level", "no gravity")),
    *(_distorted(name, _IMU, deadline=3.0)
      for name in ("gyro about z saturated", "gyro of other sign", "gyro in degrees per second")),
    _distorted("IMU axes swapped", f"{TOLERATED} | {_IMU}"),  # consistent until the robot falls
    _distorted("quaternion changes its sign", TOLERATED),
    _distorted("heading jumps by half a turn", TOLERATED),  # no policy uses the heading
    _distorted("roll jumps by half a turn", "trip tilt"),
    *(_distorted(name, TOLERATED) for name in ("gravity upside down", "acceleration in g")),  # nothing uses it
    *(_distorted(name, "trip invalid_state") for name in ("attitude without values", "attitude of length 2")),
    # Joints.
    *(_distorted(name, "trip frozen_state | trip velocity_mismatch")
      for name in ("one joint frozen", "one encoder frozen, velocity alive", "joints frozen, IMU alive")),
    *(_distorted(f"encoder jumps by {angle}", "trip joint_position | trip joint_error | trip velocity_mismatch")
      for angle in ("2 pi", "half a turn", "one motor turn")),
    *(_distorted(name, f"{TOLERATED} | trip velocity_mismatch | trip joint_position")
      for name in ("encoder off in one state of 100", "bit flips in a position")),
    _distorted("one leg's data zero", "trip joint_position"),
    _distorted("one leg's motors without data", "trip joint_position | trip servo_lost"),
    *(_distorted(name, f"{_JOINT} | trip joint_velocity | trip motor_power", deadline=3.0)
      for name in ("all velocities zero", "velocities of other sign", "velocities in rpm")),
    _distorted("left and right front legs swapped", f"{TOLERATED} | {_JOINT}"),
    _distorted("torques of other sign", TOLERATED),
    *(_distorted(name, "trip servo_lost") for name in ("one motor in error", "all motors in another mode")),
    _distorted("board leaves the low level", "trip servo_lost"),
    _distorted("one motor at 85 C", "trip temperature", "trip temperature"),
    *(_distorted(name, "warning temperature", "warning temperature")
      for name in ("one motor at 130 C, which the wire cannot say", "one motor without a temperature")),
    # The board's time.
    *(_distorted(f"tick jumps ahead by {jump}", _TICK, _TICK) for jump in ("2 s", "an hour")),
    *(_distorted(name, _RESTARTED, _RESTARTED) for name in ("tick jumps back by 1 s", "tick jumps by half its range")),
    _distorted("tick wraps around", f"{TOLERATED} | {_RESTARTED}"),
    _distorted("tick runs at half speed", f"{TOLERATED} | trip packet_loss"),
    _distorted("tick in microseconds from now on", TOLERATED),
    _distorted("tick jumps to and fro", f"{_OLD} | {_TICK}", f"{_OLD} | {_TICK}"),
    *(_distorted(name, "trip stale_state | trip frozen_state") for name in ("tick runs backwards", "tick of zero")),
    # The line.
    _distorted("truncated datagrams, every second", "warning rejected_packets | trip packet_loss", deadline=2.0),
    *(_distorted(name, "trip stale_state") for name in ("datagrams in two fragments", "two states in one datagram")),
    _distorted("every state ten times", _UNCHANGED),
    _distorted("groups of 5 in reverse", f"{TOLERATED} | warning old_states"),
    *(_distorted(f"bursts every {time} ms", f"{TOLERATED} | trip stale_state | {_FALLS}") for time in (40, 90)),
    *(_distorted(name, f"trip packet_loss | warning packet_loss | {_FALLS}", deadline=2.0)
      for name in ("pauses of 40 ms, ten a second", "pauses of 90 ms, twice a second")),
    _distorted("delay grows to 150 ms", f"{TOLERATED} | {_FALLS}", lasting=5.0),
    _distorted("delay jumps from 0 to 60 ms", f"{TOLERATED} | {_FALLS}"),
    *(_distorted(name, _OLD, _OLD)
      for name in ("every state again 1 s later", "second board, earlier tick")),
    _distorted("second board, later tick", f"{_JOINT} | {_OLD}"),
    _distorted("second board, identity in one of 100", "trip identity", "trip identity"),
    _distorted("other generation in every second state", "warning rejected_packets | trip packet_loss"),
    _distorted("commands come back", "warning rejected_packets", "warning rejected_packets"),
    *(_distorted(f"{rate} Hz", f"trip packet_loss | trip stale_state | {_FALLS}", deadline=2.0)
      for rate in (250, 50, 13)),
    # The board's power.
    _reboot(1.5, "trip stale_state", "warning stale_state"),
    _reboot(0.06, _RESTARTED, _RESTARTED),
    # Processes.
    *(_signalled(f"{name} stopped for 50 ms", [name], signal.SIGSTOP, _ANY, 0.05) for name in PROCESSES),
    *(_signalled(f"{name} stopped for 5 s", [name], signal.SIGSTOP, _LET_GO, 5.0) for name in PROCESSES),
    _signalled("controller ended (SIGTERM)", ["controller"], signal.SIGTERM, _LET_GO, ends="controller"),
    _signalled("controller and io killed", ["controller", "io"], signal.SIGKILL, _LET_GO, ends="controller"),
    _signalled("bridge ended (SIGINT)", ["bridge"], signal.SIGINT, _LET_GO, ends="bridge"),
    *(_signalled(f"io gets {number.name}", ["io"], number, _UNCHANGED)
      for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)),
    *(_busy(niceness) for niceness in (0, -10)),
    *(_limited(name, resource.RLIMIT_AS, 1 << 20, "further memory") for name in PROCESSES),
    *(_limited(name, resource.RLIMIT_NOFILE, FEW_FILES, "further file descriptors") for name in PROCESSES),
    FaultCase("io killed, bridge without further file descriptors", _LET_GO, "trip io_process",
              begin=_io_killed_without_files),
    # Files, parameters, requests.
    *(_file(which, what, change) for which in ("policy", "robot") for what, change in FILE_CHANGES.items()),
    *(_parameters(node) for node in ("bridge", "controller")),
    _flood("mode requests", _ANY, TOLERATED, "controller/stand_up", "controller/walk", "controller/reset",
           "controller/lie_down"),
    _flood("stops and resets", f"trip emergency_stop | {_LET_GO}", f"trip emergency_stop | {TOLERATED}",
           "bridge/emergency_stop", "bridge/reset", "controller/reset", "controller/stand_up"),
    *(_transition(node, "deactivate", _LET_GO, back="activate") for node in ("controller", "bridge")),
    *(_transition(node, "cleanup", _UNCHANGED) for node in ("controller", "bridge")),  # not of an active node
    *(_transition(node, "active_shutdown", _LET_GO, ends=node) for node in ("controller", "bridge")),
)  # fmt: skip
