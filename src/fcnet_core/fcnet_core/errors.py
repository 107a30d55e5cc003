"""Every error that the suite raises for its users, in one tree.

FcnetError                        input, a setting or a request that cannot be used
├── NonFiniteObservation          an observation has NaN or infinity
├── RefusedCommandError           a command that no robot should follow
├── MessageError                  a ROS message is damaged or too large
├── ParameterError                a ROS parameter cannot be used
│   └── LaunchArgumentError       a launch argument cannot be used
├── ReplayError                   a bag, recording or mapping cannot be read
├── SimulationError               a simulation cannot be set up, run or resumed
├── DemoFailedError               the robot did not finish the demo course
├── WireError                     a datagram does not match the vendor's format
├── WriteError (OSError)          a file or folder cannot be written
├── TransportError (OSError)      a robot cannot be reached, or a port cannot be opened
└── RobotInUseError               another program controls the robot

The message is one sentence: what was expected, what was found, where, and what to do. Command-line programs print it
without a traceback and exit with status 2. All other exceptions are defects of the suite and keep their traceback.
"""

from pathlib import Path
from typing import Any, Literal

WireFault = Literal["size", "generation", "head", "checksum", "level", "not_finite"]


class FcnetError(ValueError):
    """Input, a setting or a request cannot be used; the message says what to do."""


class NonFiniteObservation(FcnetError):
    """An observation has NaN or infinity; the policy's state is unchanged."""


class RefusedCommandError(FcnetError):
    """A command that no robot should follow; the message says why."""


class MessageError(FcnetError):
    """A ROS message is damaged or larger than any valid one; it is ignored."""


class ParameterError(FcnetError):
    """A ROS parameter cannot be used."""


class LaunchArgumentError(ParameterError):
    """A launch argument cannot be used. argument: its name."""

    def __init__(self, message: str, argument: str) -> None:
        super().__init__(message)
        self.argument = argument


class ReplayError(FcnetError):
    """A bag, recording, mapping or option of a replay cannot be used."""


class SimulationError(FcnetError):
    """A simulation cannot be set up, run, resumed or compared."""


class DemoFailedError(FcnetError):
    """The robot did not finish the demo course; the message says why."""


class WireError(FcnetError):
    """A datagram is not what its generation prescribes, or values do not fit into one.

    kind: "size"; "generation", the size of the other generation's datagram; "head"; "checksum"; "level", not for
    motors; "not_finite", NaN or infinity.
    """

    def __init__(self, kind: WireFault, sentence: str) -> None:
        super().__init__(sentence)
        self.kind: WireFault = kind


class WriteError(FcnetError, OSError):
    """A file or folder cannot be written. path: which one; reason: the operating system's, with the space left."""

    def __init__(self, path: str | Path, reason: str, remedy: str, number: int | None) -> None:
        super().__init__(f"{path} cannot be written: {reason}; {remedy}")
        self.path, self.reason, self.remedy, self.errno = path, reason, remedy, number

    def __reduce__(self) -> tuple[Any, ...]:  # of a worker process
        return WriteError, (self.path, self.reason, self.remedy, self.errno)


class TransportError(FcnetError, OSError):
    """A robot cannot be reached from this computer, or a port cannot be opened."""


class RobotInUseError(FcnetError):
    """Another program controls the robot; the message says which one."""
