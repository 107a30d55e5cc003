"""Builds what a policy sees, from signals and from what its runner knows."""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Floats, Mask, Rows, Single
from fcnet_core.observation import terms as kinds
from fcnet_core.observation.interface import Input, PolicyInterface
from fcnet_core.observation.signals import RobotState
from fcnet_core.observation.terms import Term
from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_core.rotation import projected_gravity

Signals = Mapping[str, npt.NDArray[Any]] | RobotState  # by name, or with the four signals of a robot as attributes
NOTHING: Array = np.empty(0)
TURN = 2 * np.pi  # [rad]


class Known(NamedTuple):
    """What a runner knows before a step, with its leading axes (...): setpoint (..., 9), phase and walking (...) of the
    gait clock; actions of the last step and of the one before it: sent and output (..., values), and choice (...), the
    row of the action's table.
    """

    setpoint: Array = np.zeros(len(SETPOINT_FIELDS))
    phase: float | Array = NOTHING
    walking: bool | npt.NDArray[Any] = NOTHING
    sent: tuple[Array, Array] = (NOTHING, NOTHING)
    output: tuple[Array, Array] = (NOTHING, NOTHING)
    choice: tuple[Rows, Rows] = (np.empty(0, np.int64),) * 2


Read = Callable[[Mapping[str, Any], Known], Any]


class ObservationBuilder:
    """Builds the observations of one robot or, with a leading axis, of `batch` robots.

    joints: the joint names of the signals, if these are not the interface's own. Terms with a past (history, clocks in
    time, returns) advance by `advance`, once for each step of the policy; without such terms any leading axes fit.
    """

    def __init__(
        self, interface: PolicyInterface, joints: tuple[str, ...] | None = None, batch: int | None = None
    ) -> None:
        self.interface = interface
        self._lead = () if batch is None else (batch,)
        self._has_past = interface.has_past
        rows = interface.rows(interface.joints if joints is None else joints)
        self._rows = None if joints is None or rows == list(range(len(joints))) else rows
        self.steps: Rows = np.zeros(self._lead, np.int64)  # since the reset
        self._memory: dict[str, npt.NDArray[Any]] = {}  # of terms with a past, zero after a reset
        self._next: dict[str, npt.NDArray[Any]] = {}  # the memory after this step
        self._inputs = {name: self._input(name, seen) for name, seen in interface.inputs.items()}
        self._only = next(iter(self._inputs.values())) if len(self._inputs) == 1 else None

    def reset(self, mask: Mask | None = None) -> None:
        """Forget the past of the robots in `mask` (batch,), or of all."""
        chosen = ... if mask is None else mask
        for array in (self.steps, *self._memory.values()):
            array[chosen] = 0
        self._next.clear()

    def build(self, signals: Signals, known: Known) -> Any:
        """Return the observation: an array (..., n), or arrays by name if the interface has several inputs.

        Raises KeyError or AttributeError if a signal is missing; PolicyInterface.check_signals says which before.
        """
        if isinstance(signals, Mapping):
            values: Mapping[str, Any] = signals
        else:
            values = {name: getattr(signals, name) for name in self.interface.reads}
        if self._only is not None:
            return self._only(values, known)
        return {name: build(values, known) for name, build in self._inputs.items()}

    def advance(self) -> None:
        """Take the observation built last for a step of the policy: its values become past."""
        if self._has_past:
            self._memory.update(self._next)
            self._next.clear()
            self.steps += 1

    def _input(self, name: str, seen: Input) -> Read:
        """Return a function that builds one input."""
        reads = [self._term(f"{name}/{place}", term) for place, term in enumerate(seen.terms)]
        spec, clip, is_clipped = self.interface.spec[name], seen.clip, math.isfinite(seen.clip)
        if spec.dtype != "float32":
            return lambda values, known: np.asarray(reads[0](values, known), spec.dtype)

        def frame(values: Mapping[str, Any], known: Known) -> Single:
            parts = [read(values, known) for read in reads]
            entries: Single = np.concatenate(parts, axis=-1, dtype=np.float32, casting="unsafe")
            return np.clip(entries, -clip, clip) if is_clipped else entries

        if seen.history is None and not any(term.history for term in seen.terms):
            return frame
        # Past frames are kept oldest first, scaled and clipped.
        sizes = [self.interface.size(term) for term in seen.terms]
        ends, longest = np.cumsum(sizes), max(seen.frames(term) for term in seen.terms)
        place = {id(term): slice(end - size, end) for term, size, end in zip(seen.terms, sizes, ends, strict=True)}
        blocks = [(longest - 1 - age, place[id(term)]) for age, term in self.interface.blocks(seen)]
        starts_first = seen.history is not None and seen.history.start == "first"
        fills = np.repeat([starts_first or term.history is not None for term in seen.terms], sizes)
        self._memory[name] = np.zeros((*self._lead, longest, sum(sizes)), np.float32)

        def frames(values: Mapping[str, Any], known: Known) -> Floats:
            newest = frame(values, known)[..., None, :]
            cold = (self.steps == 0)[..., None, None]
            past = np.where(cold & fills, newest, self._memory[name][..., 1:, :])
            kept = self._next[name] = np.concatenate([past, newest], axis=-2)
            return np.concatenate([kept[..., row, entries] for row, entries in blocks], axis=-1)

        return frames

    def _term(self, key: str, term: Term) -> Read:
        """Return a function that reads a term (..., size), clipped and scaled. key: of its memory."""
        read, clip, scale = self._value(key, term), term.clip, np.asarray(term.scale)
        if np.isinf(clip) and (scale == 1.0).all():
            return read
        return lambda values, known: scale * np.clip(read(values, known), -clip, clip)

    def _value(self, key: str, term: Term) -> Read:
        match term:
            case kinds.ProjectedGravity():
                return lambda values, _: projected_gravity(values["orientation"])
            case kinds.JointVelocity():
                return self._of_joints("joint_velocity")
            case kinds.JointPosition():
                position, pose = self._of_joints("joint_position"), self.interface.pose
                forms: dict[str, Read] = {
                    "sin": lambda values, known: np.sin(position(values, known)),
                    "cos": lambda values, known: np.cos(position(values, known)),
                    "relative": lambda values, known: position(values, known) - pose,
                    "absolute": position,
                }
                return forms[term.form]
            case kinds.LastAction():
                place = term.age - 1
                actions: dict[str, Read] = {
                    "sent": lambda _, known: known.sent[place],
                    "output": lambda _, known: known.output[place],
                    "index": lambda _, known: known.choice[place][..., None],
                }
                return actions[term.of]
            case kinds.Command():
                return self._command(term.fields)
            case kinds.Clock():
                return self._clock(key, term)
            case kinds.Constant():
                rows = lru_cache(maxsize=1)(lambda lead: np.full((*lead, term.size), term.value))
                return lambda _, known: rows(known.setpoint.shape[:-1])
            case kinds.Reward():
                return lambda values, _: np.where(self.steps == 0, 0.0, values["reward"])[..., None]
            case kinds.ReturnToGo():
                return self._return_to_go(key, term)
        return lambda values, _: values[term.reads]

    def _of_joints(self, name: str) -> Read:
        rows = self._rows
        return (lambda values, _: values[name]) if rows is None else (lambda values, _: values[name][..., rows])

    def _command(self, names: tuple[str, ...]) -> Read:
        """Return a function that reads setpoints (..., len(names)) by name."""
        fixed = self.interface.commands.fixed
        if not fixed.keys() & {*names}:
            rows = [SETPOINT_FIELDS.index(name) for name in names]
            span = range(min(rows, default=0), max(rows, default=-1) + 1)
            chosen: Any = slice(span.start, span.stop) if rows == [*span] else rows
            return lambda _, known: known.setpoint[..., chosen]

        def read(_: Mapping[str, Any], known: Known) -> Array:
            lead = known.setpoint.shape[:-1]
            columns = [
                np.full(lead, fixed[name]) if name in fixed else known.setpoint[..., SETPOINT_FIELDS.index(name)]
                for name in names
            ]
            return np.stack(columns, axis=-1)

        return read

    def _clock(self, key: str, term: kinds.Clock) -> Read:
        period = 1.0 / self.interface.rate
        if term.form == "gait":
            return _gait
        if term.form == "sin_cos":
            turn = TURN * period / (term.period or 1.0)  # per step

            def sin_cos(_: Mapping[str, Any], known: Known) -> Array:
                angle = turn * (self.steps + 1 - term.lag)
                return np.stack([np.sin(angle), np.cos(angle)], axis=-1)

            return sin_cos
        frequency = self._command((term.frequency,))
        offsets = [self._command(names) for names in term.offsets.values()]
        self._memory[key] = np.zeros(self._lead)

        def foot_sines(values: Mapping[str, Any], known: Known) -> Array:
            before = self._memory[key]
            self._next[key] = moved = (before + frequency(values, known)[..., 0] * period) % 1.0
            phase = before if term.lag else moved
            return np.stack([np.sin(TURN * (phase + offset(values, known).sum(-1))) for offset in offsets], axis=-1)

        return foot_sines

    def _return_to_go(self, key: str, term: kinds.ReturnToGo) -> Read:
        if term.hold:
            return lambda _values, _known: np.full((*self._lead, 1), term.target)
        span = term.reference[1] - term.reference[0]
        self._memory[key] = np.zeros(self._lead)  # earned since the reset, as a share of the span

        def read(values: Mapping[str, Any], known: Known) -> Array:
            earned = np.where(self.steps == 0, 0.0, self._memory[key] + np.asarray(values["reward"]) / span)
            self._next[key] = earned
            return (term.target - earned)[..., None]

        return read


def _gait(_: Mapping[str, Any], known: Known) -> Array:
    """Return sine and cosine of the gait's phase, and 1 while the clock moves (..., 3)."""
    angle = TURN * known.phase
    if np.ndim(angle):
        return np.stack([np.sin(angle), np.cos(angle), known.walking], axis=-1)
    return np.array((math.sin(angle), math.cos(angle), known.walking))
