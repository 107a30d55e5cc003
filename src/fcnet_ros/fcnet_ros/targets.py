"""Joint targets and gains: their messages, and transport by DDS; local_socket.py has the other transport.

Every message is validated first: its size and layout, its stamp against this computer's clock, and that the stamps of
a sender advance. The age of a message is measured here: if it took longer than others of its sender, it waited for that
long in a queue or in a stopped process.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.arrays import Array
from fcnet_core.errors import MessageError, RefusedCommandError
from fcnet_core.names import SECOND
from fcnet_core.observation import LABEL, SIZE, PolicyStep
from fcnet_ros.local_socket import LocalSender
from fcnet_ros.one_publisher import IdentifiedMessages, gid_of
from fcnet_ros.serialized import MAX_NAMES, CdrReader, MessageBuffer, NamesReader, placeholders, seconds
from fcnet_ros.topics import JOINT_TRAJECTORY, POLICY_STEP, Topic

WAYS = ("dds", "local")
WAY = "transport of targets and gains: dds, or local, a socket of this computer for programs of this user and of root"
STAMP_TOLERANCE = SECOND // 2  # [ns] between a message's stamp and this computer's clock
MAX_SOURCES = 64  # senders whose stamps are stored, each for as long as an old stamp would be accepted
CLOCK_DRIFT = 0.01  # [s/s] rate at which the shortest delay grows, as a clock may be adjusted
SENT = JOINT_TRAJECTORY, POLICY_STEP
MAX_GAINS_TEXT = 4096  # [bytes] of joint_gains; the suite's have 0.7 kB


@dataclass(frozen=True)
class JointCommand:
    """A command for all joints.

    targets: positions (N,) [rad] of the robot's joints, or None to damp; received: time of arrival [s, time.monotonic];
    source: the sender; stamp: the sender's time [ns].
    """

    targets: Array | None
    received: float
    source: str
    stamp: int = 0


def joint_targets(
    joints: Sequence[str],
    names: Sequence[str],
    positions: npt.ArrayLike,
    velocities: npt.ArrayLike,
    efforts: npt.ArrayLike,
) -> Array | None:
    """Return the position targets (N,) [rad] of a robot's `joints` from a point that has them as `names`, in any order.

    Return None for velocities of zero without positions, which mean "damp". Raises RefusedCommandError.
    """
    order: slice | list[int] = slice(None)
    if names != joints:
        missing, unknown = sorted(set(joints) - set(names)), sorted(set(names) - set(joints))
        if missing or unknown or len(names) != len(joints):
            found = f"missing {missing}, unknown {unknown}" if missing or unknown else "a joint is named twice"
            raise RefusedCommandError(f"the joints must be {', '.join(joints)}, each once, in any order; {found}")
        order = [list(names).index(joint) for joint in joints]
    positions, velocities = np.asarray(positions, dtype=np.float64), np.asarray(velocities)
    if np.any(velocities) or np.any(efforts):
        raise RefusedCommandError("this robot follows positions only; leave velocities and effort empty or zero")
    if not positions.size and velocities.size == len(joints):
        return None
    if positions.size != len(joints):
        found = f"the point has {positions.size or 'no'} positions for {len(joints)} joints"
        raise RefusedCommandError(f"{found}; send one for each, or a velocity of 0 for each to damp")
    targets = positions[order]
    if not (finite := np.isfinite(targets)).all():
        joint = joints[int(finite.argmin())]
        raise RefusedCommandError(f"the position of {joint} is not a finite number; send finite positions")
    return targets


class TargetReader:
    """Reads serialised joint_trajectory messages for a robot with the joints `joint_names`."""

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._joint_names, self._names_reader = joint_names, NamesReader()

    def read(self, content: bytes) -> tuple[int, Array | None]:
        """Return the stamp [ns] and the position targets (N,) [rad] in the order of the robot's joints, None for
        damping. Raises RefusedCommandError if no robot should follow the message.
        """
        try:
            reader, stamp, names = self._names_reader.read(content)
            if (points := reader.count()) != 1:
                raise MessageError(f"a trajectory of {points} points is ignored; send exactly one")
            positions, velocities, _accelerations, efforts = (reader.doubles() for _ in range(4))
        except MessageError as error:
            raise RefusedCommandError(f"joint_trajectory: {error}") from error
        return stamp, joint_targets(self._joint_names, names, positions, velocities, efforts)


class TargetValidator:
    """Turns serialised joint_trajectory messages into commands for a robot with the joints `joint_names`.

    clock: the robot's, wall-clock or simulated [ns].
    """

    def __init__(self, joint_names: tuple[str, ...], clock: Callable[[], int]) -> None:
        self._clock = clock
        self._reader = TargetReader(joint_names)
        # By source: stamp of its newest message, and the shortest recent time from stamp to arrival [ns].
        self._senders: dict[str, tuple[int, int]] = {}
        self._newest = 0

    def command(self, content: bytes, arrived: int, source: str) -> JointCommand:
        """Return the command in a message of `source`; arrived [ns, wall-clock time].

        Raises RefusedCommandError if it must not be followed.
        """
        (stamp, targets), now = self._reader.read(content), self._clock()
        if now < self._newest:
            self._senders.clear()  # the clock was set back, and so are the next stamps
        self._newest = now
        if not stamp:
            raise RefusedCommandError("joint_trajectory has no stamp; set header.stamp to the time of sending")
        if abs(now - stamp) > STAMP_TOLERANCE:
            raise RefusedCommandError(
                f"the stamp of joint_trajectory is {(stamp - now) / SECOND:+.1f} s from this computer's clock, the "
                f"limit is {STAMP_TOLERANCE / SECOND:g} s; synchronise the clocks; recorded targets are refused"
            )
        if source not in self._senders and len(self._senders) >= MAX_SOURCES:
            oldest = now - STAMP_TOLERANCE
            self._senders = {name: sender for name, sender in self._senders.items() if sender[0] >= oldest}
            if len(self._senders) >= MAX_SOURCES:
                raise RefusedCommandError(f"more than {MAX_SOURCES} programs publish joint_trajectory; end them")
        previous, shortest = self._senders.get(source, (0, 2**62))
        if stamp <= previous:
            raise RefusedCommandError("the stamp of joint_trajectory does not advance; send each message once")
        waited = max(0, time.time_ns() - arrived)
        delay = now - waited - stamp
        shortest = min(delay, shortest + int(CLOCK_DRIFT * (stamp - previous)))
        self._senders[source] = stamp, shortest
        received = time.monotonic() - (waited + delay - shortest) / SECOND
        return JointCommand(targets, received, source, stamp)


def take_command(messages: IdentifiedMessages, validator: TargetValidator) -> JointCommand | None:
    """Return the newest command on a topic, of any publisher, None if there is none. Raises RefusedCommandError."""
    if (message := messages.take()) is None:
        return None
    content, arrived, gid = message
    return validator.command(content, arrived, messages.publisher(gid))


GainsByJoint = Annotated[dict[str, Annotated[float, Meta(ge=0.0, le=1e4)]], Meta(max_length=MAX_NAMES)]


class Gains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stiffness kp [Nm/rad] and damping kd [Nms/rad] by joint; a message on joint_gains has them as JSON."""

    kp: GainsByJoint
    kd: GainsByJoint


def gains_text(joint_names: Sequence[str], kp: Iterable[float], kd: Iterable[float]) -> str:
    """Return the text of a message on joint_gains."""
    kp_by_joint, kd_by_joint = (dict(zip(joint_names, gains, strict=True)) for gains in (kp, kd))
    return msgspec.json.encode(Gains(kp_by_joint, kd_by_joint)).decode()


def read_gains(content: bytes, joint_names: Sequence[str]) -> tuple[Array, Array]:
    """Return kp [Nm/rad] and kd [Nms/rad], each (N,) in the order of the N joints, of a serialised message.

    Raises ValueError unless each names all joints. The robot's driver checks whether they are allowed.
    """
    text = CdrReader(content, MAX_GAINS_TEXT + 16).text(MAX_GAINS_TEXT)
    try:
        gains = msgspec.json.decode(text, type=Gains)
    except msgspec.MsgspecError as error:
        raise ValueError(
            f'joint_gains must be {{"kp": {{joint: value}}, "kd": {{joint: value}}}} as JSON, '
            f"found {text[:80].decode(errors='replace')!r}: {error}"
        ) from error
    if odd := (set(gains.kp) ^ set(joint_names)) | (set(gains.kd) ^ set(joint_names)):
        names = ascii(", ".join(sorted(odd)))
        raise ValueError(f"joint_gains must give kp and kd for each joint once; look at {names:.200}")
    kp, kd = (np.array([values[joint] for joint in joint_names]) for values in (gains.kp, gains.kd))
    return kp, kd


class TargetPublisher:
    """Publishes joint_trajectory with one point: positions, or velocities of zero alone, which mean damping.

    joint_names: the order of the N joints. topics: of the targets and of the steps. With a local sender it sends the
    same message there too: the robot follows that one, and the topic is for observers. For recordings it publishes
    ~/policy_step: the inputs of a step of the policy (fcnet_core/observation). For one thread at a time.
    """

    def __init__(
        self, node: Node, joint_names: tuple[str, ...], topics: Sequence[Topic] = SENT, local: LocalSender | None = None
    ) -> None:
        self.publishers = [topic.publisher(node) for topic in topics]
        self._clock, self._local = node.get_clock(), local
        blocks, still = placeholders(len(joint_names)), [0.0] * len(joint_names)
        following, damping = JointTrajectoryPoint(positions=blocks[0]), JointTrajectoryPoint(velocities=still)
        self._following = MessageBuffer(JointTrajectory(joint_names=joint_names, points=[following]), blocks)
        self._damping = MessageBuffer(JointTrajectory(joint_names=joint_names, points=[damping]), ())
        blocks, dimension = placeholders(SIZE), MultiArrayDimension(label=LABEL, size=SIZE, stride=SIZE)
        layout = MultiArrayLayout(dim=[dimension])
        self._step = MessageBuffer(Float64MultiArray(layout=layout, data=blocks[0]), blocks)
        self._previous_stamp = self._stamp = 0.0
        self._sent = b""

    @property
    def identity(self) -> bytes:
        """The identity by which the robot names this sender (see `is_own`); empty if unknown."""
        return gid_of(self.publishers[0]) if self._local is None else self._local.identity

    def publish(self, target: Array | None, stamp: int | None = None) -> None:
        """Send position targets (N,) [rad], None for damping; stamp [ns]: None for now."""
        sent = int(self._clock.now().nanoseconds) if stamp is None else stamp
        self._sent = self._damping.write(sent) if target is None else self._following.write(sent, target)
        self._previous_stamp, self._stamp = self._stamp, seconds(sent)
        self.repeat()

    def repeat(self) -> None:
        """Send the last message, a second time for a simulator that did not receive it."""
        if self._local is not None:
            self._local.send(self._sent)
        self.publishers[0].publish(self._sent)

    def publish_step(self, step: PolicyStep) -> None:
        """Publish the inputs of the policy for the targets just sent."""
        values = step.vector()
        values[:2] = self._stamp, self._previous_stamp
        self.publishers[1].publish(self._step.write(None, values))
