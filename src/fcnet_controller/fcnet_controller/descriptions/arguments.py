"""Launch arguments, most of them parameters of the nodes that are started, and the nodes of a launch."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin

import msgspec
from ament_index_python.packages import get_packages_with_prefixes
from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from msgspec import Meta
from rclpy.exceptions import InvalidNamespaceException
from rclpy.validate_namespace import validate_namespace

from fcnet_core.errors import LaunchArgumentError
from fcnet_core.files import expanded
from fcnet_ros.launched import launched
from fcnet_ros.parameters import executable_parameters, parameter_fields

PATIENCE = "20"  # [s] from SIGINT to SIGTERM: for a controller that is compiling, and a recorder on a slow disk

SIMULATOR, BOARD = "mujoco_bridge", "mujoco_board"  # executables

LogLevel = Literal["debug", "info", "warn", "error", "fatal"]

OnExit = Callable[[ProcessExited, LaunchContext], Action | None]


@dataclass(frozen=True)
class Argument:
    """A launch argument.

    kind: type of its value, to which msgspec converts the text. executables: nodes whose parameter `parameter` is set
    to it. backends: the backends that accept it; empty for all. check: raises ValueError for an unusable text.
    """

    name: str
    default: str
    description: str
    kind: Any = str
    executables: tuple[str, ...] = ()
    parameter: str = ""
    backends: tuple[str, ...] = ()
    check: Callable[[str], object] | None = None

    def value(self, text: str) -> Any:
        """Return the value of a text; "" leaves it to the node if the default is empty. Raises LaunchArgumentError."""
        if text == self.default == "":
            return ""
        try:
            text = expanded(text)
            if text and self.check is not None:
                self.check(text)
            return msgspec.convert(text, self.kind, strict=False)
        except msgspec.ValidationError:
            if get_origin(self.kind) is Annotated:
                limits = self.kind.__metadata__[0]
                reason = f"must be a number from {limits.ge:g} to {limits.le:g}"
            else:
                reason = f"is not known; choose {' or '.join(_words(self.kind))}"
        except ValueError as error:
            reason = f"cannot be used: {error}"
        raise LaunchArgumentError(f"launch argument {self.name}:={text} {reason}", self.name)


def _words(kind: Any) -> list[str]:
    """Return all values of a kind that is an enumeration."""
    if kind is bool:
        return ["true", "false"]
    return [word for part in get_args(kind) for word in ([part] if isinstance(part, str) else _words(part))]


def parameter_argument(
    executable: str,
    name: str,
    *others: str,
    parameter: str = "",
    default: str | None = None,
    backends: tuple[str, ...] = (),
    note: str = "",
) -> Argument:
    """Return the argument that is a parameter of an executable, with its default, description, range and check.

    others: further executables that have the parameter. parameter: its name, if it is not the argument's. default: ""
    leaves it to the node. note: added to the description. If the executable is not installed any text is accepted.
    """
    parameter, executables = parameter or name, (executable, *others)
    declared = executable_parameters(executable)
    if declared is None:
        return Argument(name, "", f"{executable} is not installed here", str, executables, parameter, backends)
    one = parameter_fields(declared)[parameter]
    limits, choices = one.metadata["limits"], one.metadata["choices"]
    kind: Any = Literal[tuple(choices)] if choices else type(one.default)
    if limits is not None:
        kind = Annotated[kind, Meta(ge=limits[0], le=limits[1])]
    usual = str(one.default).lower() if kind is bool else str(one.default)
    default = usual if default is None else default
    empty = f"empty for {usual}" if usual and not default else ""
    description = "; ".join(filter(None, (one.metadata["descriptor"].description, empty, note)))
    return Argument(name, default, description, kind, executables, parameter, backends, one.metadata["check"])


def check_namespace(text: str) -> None:
    """Raise ValueError unless a text is a namespace, with or without the slash before it."""
    try:
        validate_namespace(f"/{text.strip('/')}")
    except InvalidNamespaceException as error:
        raise ValueError(" ".join(str(error).split())) from error


def missing_packages(*packages: str) -> str:
    """Return the Debian names of those packages of the sourced distribution that are not installed."""
    installed, distribution = get_packages_with_prefixes(), os.environ.get("ROS_DISTRO", "jazzy")
    missing = (package.replace("_", "-") for package in packages if package not in installed)
    return " ".join(f"ros-{distribution}-{package}" for package in missing)


NAMESPACE = Argument("namespace", "", "namespace of all nodes", check=check_namespace)
LOG_LEVEL = Argument("log_level", "info", f"verbosity of the nodes: {', '.join(get_args(LogLevel))}", LogLevel)
MONITOR = (
    Argument("monitor", "false", "true shows the robot at http://127.0.0.1:8088 (docs/monitor.md)", bool),
    parameter_argument("monitor", "monitor_port", parameter="port", default="", note="empty for 8088"),
)


class SuiteLaunch:
    """One launch: the texts of its arguments, their values, and nodes that are started with them.

    on_exit: default handler for the end of a node. simulated_time: whether a simulator publishes /clock, which the
    other nodes then use. namespace: of the nodes. Raises LaunchArgumentError for a text that is no value.
    """

    def __init__(self, arguments: Sequence[Argument], texts: Mapping[str, str], on_exit: OnExit) -> None:
        self.texts = texts
        self._values = {argument.name: argument.value(texts[argument.name]) for argument in arguments}
        if self["monitor_port"] != "" and not self["monitor"]:
            self.refuse("monitor_port", "needs a monitor; add monitor:=true")
        self._arguments, self._on_exit = arguments, on_exit
        self.simulated_time, self.namespace = False, str(self["namespace"])

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def refuse(self, name: str, reason: str) -> NoReturn:
        """Raise LaunchArgumentError for an argument that does not fit the others."""
        raise LaunchArgumentError(f"launch argument {name}:={self.texts[name]} {reason}", name)

    def parameters(self, executable: str) -> dict[str, Any]:
        """Return the node's parameters that are set by arguments."""
        values = {one.parameter: self[one.name] for one in self._arguments if executable in one.executables}
        return {name: value for name, value in values.items() if value != ""}

    def node(
        self,
        package: str,
        executable: str,
        parameters: Mapping[str, Any],
        *,
        remappings: Mapping[str, str] | None = None,
        on_exit: OnExit | None = None,
    ) -> Node:
        """Return a node with its parameters from arguments and `parameters`."""
        file = self._values.get("params_file", "")
        known = {**self.parameters(executable), **parameters}
        if self.simulated_time and executable not in (SIMULATOR, BOARD):
            known["use_sim_time"] = True
        return Node(
            package=package,
            executable=executable,
            namespace=self.namespace,
            parameters=[known, file] if file else [known],
            remappings=list((remappings or {}).items()),
            # The enclave is used if SROS 2 is enabled (docs/security.md).
            arguments=["--ros-args", "--log-level", self["log_level"], "--enclave", f"/fcnet/{executable}"],
            additional_env=launched(),
            output="screen",
            sigterm_timeout=PATIENCE,
            on_exit=on_exit or self._on_exit,
        )

    def monitor(self, robot: str, bridge: str = "", recorded: Mapping[str, str] | None = None) -> list[Node]:
        """Return the monitor, if it was requested.

        bridge: of a real robot; recorded: remapped topics of a replay, which can only be watched.
        """
        if not self["monitor"]:
            return []
        parameters = {"robot": robot, "bridge": bridge, "watch_only": recorded is not None}
        report = go_on_without("the monitor", "the other programs keep running")
        return [self.node("fcnet_teleop", "monitor", parameters, remappings=recorded, on_exit=report)]


def describe(
    arguments: Sequence[Argument], file: str, on_exit: OnExit, start: Callable[[SuiteLaunch], list[Any]]
) -> LaunchDescription:
    """Return the description of the launch file called `file`, which starts the actions that `start` returns.

    Upstream's `ros2 launch` accepts any argument; here a misspelt one is an error. Arguments of a launch file that
    includes this one are not checked.
    """
    names = [argument.name for argument in arguments]

    def function(context: LaunchContext) -> list[Any]:
        if any(argument.endswith(file) for argument in sys.argv):
            written = {argument.split(":=")[0] for argument in sys.argv if ":=" in argument}
            if unknown := sorted((written & set(context.launch_configurations)) - set(names)):
                text = f"unknown launch argument {', '.join(unknown)}; known are {', '.join(names)}"
                raise LaunchArgumentError(text, unknown[0])
        texts = {name: LaunchConfiguration(name).perform(context) for name in names}
        return start(SuiteLaunch(arguments, texts, on_exit))

    declared = []
    for argument in arguments:
        description = ": ".join(filter(None, (", ".join(argument.backends), argument.description)))
        declared.append(DeclareLaunchArgument(argument.name, default_value=argument.default, description=description))
    return LaunchDescription([*declared, OpaqueFunction(function=function)])


def end_after(executable: str, reason: str) -> OnExit:
    """Return a handler that ends the launch with a program: with success and this reason if it is `executable` with
    exit code 0, else with an error.
    """

    def end(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
        if context.is_shutdown:
            return None
        program = event.process_name
        if program.startswith(executable) and event.returncode == 0:
            return Shutdown(reason=reason)
        raise RuntimeError(f"{program} ended with exit code {event.returncode}; see its last lines above")

    return end


def go_on_without(what: str, others: str) -> OnExit:
    """Return a handler that logs the end of a program that the robot does not need, such as the recorder."""

    def report(event: ProcessExited, context: LaunchContext) -> LogInfo | None:
        if context.is_shutdown:
            return None
        return LogInfo(msg=f"{what} has ended (exit code {event.returncode}); {others} without it")

    return report
