"""Decides which time each message of a bag has: of its reception by one continuous clock, and of its stamp by another.

A time that does not continue those around it in the bag is not believed. If the recorder's clock was set, stamps give
the time that passed. If they were set as well, it is unknown, and SEAM separates the data before and after. Stamps are
compared with those of joint_states at the same reception; constant differences are removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fcnet_core import counted
from fcnet_core.arrays import Array, Mask, Rows
from fcnet_core.names import IMU, JOINT_STATES, JOINT_TRAJECTORY
from fcnet_replay.bags.contents import Kind, Problem

PAUSE = 1.0  # [s] without any message: a clock was set, or nothing was recorded
BACK = 0.02  # [s] by which a clock that was not set may go back
SEAM = 0.12  # [s] longer than a state is usable, and than the gaps that end an episode
STEP = 0.04  # [s] of a clock of stamps
GAP = 0.1  # [s] longer intervals of stamps may be steps of their clock
LONG = 25  # messages; if fewer have times apart from those around them, these times are damaged
APART = 0.5  # [s] from the stamps around it, for a damaged stamp
LEAD_TIME = 1.0  # [s] of messages that show how far a clock is ahead
OFFSET = 0.01  # [s] between stamps by one clock
LONGEST = 60.0  # [s] before and after all others, for a few messages
STEP_STAMPS = (JOINT_TRAJECTORY.name, JOINT_TRAJECTORY.name, JOINT_STATES.name, IMU.name)  # of a policy_step, in turn

Arrays = dict[str, Array]  # by quantity; `received` [s], `place` in the bag, and `stamp` [s] or NaN


@dataclass(frozen=True)
class ReceptionClock:
    """The recorder's clock in K spans of messages. begin (K,): first places, or times if messages are not in order;
    ahead (K,) [s]: how far the clock was set ahead; low, high (K,) [s]: limits of the true times.
    """

    begin: Array = field(default_factory=lambda: np.array([-np.inf]))
    ahead: Array = field(default_factory=lambda: np.zeros(1))
    low: Array = field(default_factory=lambda: np.array([-np.inf]))
    high: Array = field(default_factory=lambda: np.array([np.inf]))
    in_order: bool = True

    def at(self, received: Array, place: Array | Rows) -> Array:
        """Return the continuous times (N,) [s] of messages."""
        span = np.maximum(np.searchsorted(self.begin, place if self.in_order else received, side="right") - 1, 0)
        return np.clip(received - self.ahead[span], self.low[span], self.high[span])


class _Spans:
    """N messages, divided at jumps (N - 1,). begin, end, size (K,); first, last (K,) [s]: their times; long (K,): spans
    that are no damage.
    """

    def __init__(self, time: Array, jumps: Mask) -> None:
        bounds = np.concatenate([[0], np.flatnonzero(jumps) + 1, [len(time)]])
        self.begin, self.end, self.size = bounds[:-1], bounds[1:], np.diff(bounds)
        self.first, self.last = time[self.begin], time[self.end - 1]
        self.long = (self.size >= LONG) | (np.arange(len(self.size)) == self.size.argmax())


def align_times(found: Mapping[str, Arrays], problems: list[Problem]) -> tuple[dict[str, Arrays], ReceptionClock]:
    """Return the messages of each record in the order of their stamps, or else of their reception, with times by one
    clock each, and the clock of reception. Add to `problems`. found: in the order of the bag, with joint states.
    """
    aligned = {topic: dict(arrays) for topic, arrays in found.items()}
    if repeated := len(_repeated(aligned[JOINT_STATES.name])):
        for topic, arrays in aligned.items():
            if arrays and ("stamp" in arrays or topic == "policy_step"):
                aligned[topic] = _rows(arrays, np.delete(np.arange(len(arrays["place"])), _repeated(arrays)))
        what = "The bag holds messages twice, of which one is used"
        problems.append(Problem("order", f"{what}: {repeated} of {JOINT_STATES.name} and others"))
    topics = sorted((topic for topic in aligned if aligned[topic]), key=lambda topic: topic != JOINT_STATES.name)
    reception = _reception_clock([aligned[topic] for topic in topics], problems)
    robot = _RobotClock(problems)
    for topic in topics:
        arrays = aligned[topic]
        arrays["received"] = reception.at(arrays["received"], arrays.pop("place"))
        arrays = ordered(arrays, "received")
        aligned[topic] = robot.align(topic, arrays) if "stamp" in arrays else arrays
    if step := aligned.get("policy_step"):
        values = robot.align_steps(step["step"], step["received"])
        step["step"] = values[np.argsort(values[:, 0], kind="stable")]
    problems += [Problem(kind, f"The stamps of {', '.join(of)} {what}") for (kind, what), of in robot.found.items()]
    return aligned, reception


def ordered(arrays: Arrays, name: str) -> Arrays:
    """Return the messages in the order of a quantity (N,)."""
    if (np.diff(arrays[name]) >= 0).all():
        return arrays
    return _rows(arrays, np.argsort(arrays[name], kind="stable"))


def _rows(arrays: Arrays, rows: Rows | Mask) -> Arrays:
    return {name: values[rows] for name, values in arrays.items()}


def _repeated(arrays: Arrays) -> Rows:
    """Return the rows of messages that repeat another one, with its contents and its stamp."""
    key = arrays["step"][:, 0] if "step" in arrays else arrays["stamp"]
    key = np.where(np.isnan(key), arrays["received"], key)
    order = np.argsort(key, kind="stable")
    received = arrays["received"][order]  # a run that was recorded again has the same stamps at other times
    pairs = np.flatnonzero((np.diff(key[order]) == 0) & (np.abs(np.diff(received)) <= PAUSE))
    one, other = order[pairs], order[pairs + 1]
    for name in arrays.keys() - {"received", "place"}:
        values = arrays[name].reshape(len(key), -1)
        equal = ((values[one] == values[other]) | (np.isnan(values[one]) & np.isnan(values[other]))).all(axis=1)
        one, other = one[equal], other[equal]
    return other


def _reception_clock(topics: list[Arrays], problems: list[Problem]) -> ReceptionClock:
    """Return the recorder's clock. topics: joint states first."""
    received, place = (np.concatenate([arrays[name] for arrays in topics]) for name in ("received", "place"))
    back = np.concatenate([np.diff(arrays["received"], prepend=arrays["received"][0]) < 0 for arrays in topics])
    if not back.any() and (np.diff(np.sort(received)) <= PAUSE).all():
        return ReceptionClock()
    order = np.argsort(place)
    time = received[order]
    spans = _Spans(time, (np.abs(np.diff(time)) > PAUSE) | back[order][1:])
    if not (in_order := _in_order(spans)):
        problems.append(Problem("order", "Messages are not in the order of their reception; they were sorted by it"))
        order = np.argsort(received, kind="stable")
        time = received[order]
        spans = _Spans(time, np.diff(time) > PAUSE)
    ahead = _steps(order, spans, topics[0], problems)
    first, begin, end = spans.first, spans.first[spans.long] - ahead, spans.last[spans.long] - ahead
    # A short span lies between the long ones around it, by the clock of either, or between all if no clock was set.
    after = np.cumsum(spans.long)
    low, high = np.append(begin[0], end)[after], np.append(begin, end[-1])[after]
    before, behind = ahead[np.maximum(after - 1, 0)], ahead[np.minimum(after, len(ahead) - 1)]
    next_clock = ~spans.long & (np.abs(first - before - low) > np.abs(first - behind - high))
    free = spans.long | (~ahead.any() & (first >= begin[0]) & (first <= end[-1]))
    early, late = (after == 0) & (first > low - LONGEST), (after == len(ahead)) & (first - before < high + LONGEST)
    low, high = np.where(free | early, -np.inf, low), np.where(free | late, np.inf, high)
    keys = (place if in_order else received)[order[spans.begin]]
    clock = ReceptionClock(keys, np.where(next_clock, behind, before), low, high, in_order)
    corrected = clock.at(time, place[order]) + np.repeat(clock.ahead, spans.size)
    if damaged := int((np.abs(corrected - time) > PAUSE).sum()):
        what = "have an impossible time of reception; that of the messages around them is used instead"
        problems.append(Problem("clock", f"{counted(damaged, 'message')} {what}"))
    return clock


def _steps(order: Rows, spans: _Spans, states: Arrays, problems: list[Problem]) -> Array:
    """Return how far the clock is ahead in each long span [s]. Its steps are seen in all messages and in the joint
    states, which come first.
    """
    ahead, total, last, end, long = [], 0.0, -1, np.nan, np.flatnonzero(spans.long)
    for span in long:
        rows = order[spans.begin[span] : spans.end[span]]
        rows = rows[rows < len(states["received"])]
        if len(rows):
            jump, passed = (float(states[name][rows[0]] - states[name][last]) for name in ("received", "stamp"))
            if last >= 0 and not -BACK <= jump <= PAUSE and not -BACK <= spans.first[span] - end <= PAUSE:
                known = 0.0 < passed <= PAUSE
                total += jump - (passed if known else SEAM)
                what = _set(jump, spans.first[span] - total - spans.first[long[0]])
                what += " or nothing was recorded" if jump > 0 and not known else ""
                how = "stamps give the times" if known else "data before and after are separate"
                problems.append(Problem("clock", f"The clock of reception was {what}; {how}"))
            last = int(rows[-1])
        ahead.append(total)
        end = spans.last[span]
    return np.array(ahead)


def _set(jump: float, when: float) -> str:
    return f"set {'ahead' if jump > 0 else 'back'} by {abs(jump):.4g} s after {when:.1f} s"


def _in_order(spans: _Spans) -> bool:
    """Return whether messages lie in the order of reception. Long spans of a clock that was set overlap, or there is a
    pause between them; otherwise they were exchanged.
    """
    rank = np.flatnonzero(spans.long)[np.argsort(spans.first[spans.long])]
    between = spans.first[rank[1:]] - spans.last[rank[:-1]]
    exchanged = (np.diff(rank) < 0).any() and ((between > -APART) & (between <= PAUSE)).all()
    return 2 * int(spans.size[spans.long].sum()) >= int(spans.size.sum()) and not exchanged


def _lead(difference: Array, received: Array) -> float:
    """Return how far the stamps of (N,) messages are ahead of another clock [s], in the first LEAD_TIME."""
    count = max(LONG, int(np.searchsorted(np.abs(received - received[0]), LEAD_TIME)))
    return float(np.percentile(difference[:count], 90))  # the least delayed: a recorder that stalls delays some


class _RobotClock:
    """The clock of the joint states' stamps, by which all stamps are given. Joint states are aligned first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.found: dict[tuple[Kind, str], list[str]] = {}  # topics by kind of problem and what is wrong
        self._problems = problems
        self._received, self._stamp = np.empty(0), np.empty(0)  # of the joint states
        self._ahead: dict[str, Array] = {}  # [s] how far the clock of a topic is ahead, in each span of it

    def at(self, received: Array) -> Array:
        """Return the stamps (N,) [s] that joint states received at these times have."""
        if not len(self._stamp):
            return received
        within = np.clip(received, self._received[0], self._received[-1])
        return np.interp(within, self._received, self._stamp).astype(np.float64) + received - within

    def align(self, topic: str, arrays: Arrays) -> Arrays:
        """Return the messages of a topic, given in the order of reception, in the order of their stamps by this clock.
        Leave out those with damaged stamps; targets are kept, because their number gives the gait's phase.
        """
        received, stamp, own = arrays["received"], arrays["stamp"].copy(), topic == JOINT_STATES.name
        stands = np.diff(stamp) == 0
        known = np.isfinite(stamp) & ~np.append(stands, False) & ~np.append(False, stands)
        known &= (2 * known.sum() >= len(known)) & (own or len(self._stamp) > 0)
        ahead = np.zeros(len(stamp))
        if known.any():
            ahead[known] = self._ahead_of(topic, received[known], stamp[known])
        good = np.isfinite(ahead)
        stamp -= ahead
        if own:
            self._received, self._stamp = received[known & good], stamp[known & good]
        if topic == JOINT_TRAJECTORY.name:
            known, good = known & good, np.ones_like(good)
        stamp[~known] = self.at(received[~known])
        if unknown := int((~known).sum()):
            what = "no stamp, or one that stands still or is damaged; when they were received is used instead"
            self._problems.append(Problem("no_stamp", f"{counted(unknown, 'message')} of {topic} have {what}"))
        if damaged := int((~good).sum()):
            what = f"left out: their stamps are over {APART:g} s apart from those around them"
            self._problems.append(Problem("clock", f"{counted(damaged, 'message')} of {topic} {what}"))
        return ordered(_rows({**arrays, "stamp": stamp}, good), "stamp")

    def align_steps(self, step: Array, received: Array) -> Array:
        """Return policy steps (N, SIZE) with stamps by this clock: of those possible, the nearest to the reception."""
        aligned, expected = step.copy(), self.at(received)[:, None]
        for column, topic in enumerate(STEP_STAMPS):
            possible = step[:, [column]] - np.append(self._ahead.get(topic, np.empty(0)), 0.0)
            nearest = np.abs(possible - expected).argmin(axis=1)
            aligned[:, column] = possible[np.arange(len(step)), nearest]
        return aligned

    def _ahead_of(self, topic: str, received: Array, stamp: Array) -> Array:
        """Return how far the topic's clock is ahead of this one at its messages (N,) [s]; NaN for damaged stamps."""
        own, difference, passed = not len(self._stamp), stamp - self.at(received), np.diff(stamp)
        spans = _Spans(stamp, (np.abs(np.diff(difference)) > STEP) & ((passed < -BACK) | (passed > GAP)))
        first, end = int(spans.begin[spans.long][0]), int(spans.end[spans.long][0])
        last = _lead(difference[first:end], received[first:end])
        level = 0.0 if own else float(np.median(difference[first:end]))
        if level := level * (abs(level) > OFFSET):
            where = f"{abs(level):.2g} s {'ahead of' if level > 0 else 'behind'} those of {JOINT_STATES.name}"
            self._note("clock", topic, f"are {where} at the same reception; the difference was removed")
        ahead = np.full(len(stamp), np.nan)
        for begin, end, long in zip(spans.begin, spans.end, spans.long, strict=True):
            of_span, at = difference[begin:end], received[begin:end]
            jump = _lead(of_span, at) - last
            if long and abs(jump) > STEP:
                level, when = level + jump, received[begin] - (received[0] if own else self._received[0])
                self._note("clock", topic, f"were {_set(jump, when)}; the step was removed")
            if long:
                last = _lead(of_span[::-1], at[::-1])
            if long or abs(jump) <= APART:
                ahead[begin:end] = level
        self._ahead[topic] = np.unique(ahead[np.isfinite(ahead)])
        self._check_rate(topic, (difference - ahead)[np.isfinite(ahead)])
        return ahead

    def _check_rate(self, topic: str, rest: Array) -> None:
        """Note a clock of another rate; rest (N,) [s]: differences that remain."""
        third, own = len(rest) // 3, not len(self._stamp)
        if third < LONG:
            return
        drift = 1.5 * float(np.median(rest[-third:]) - np.median(rest[:third]))
        if abs(drift) > OFFSET:
            against = "their times of reception" if own else f"those of {JOINT_STATES.name}"
            kind: Kind = "clock_drift" if own else "clock_unknown"
            self._note(kind, topic, f"drift against {against}, by {drift:.2g} s in all")
        elif not own and self._ahead[topic].any() and np.ptp(np.percentile(rest, (10, 90))) > OFFSET:
            self._note("clock_unknown", topic, "are received too irregularly to find how far their clock is ahead")

    def _note(self, kind: Kind, topic: str, what: str) -> None:
        self.found.setdefault((kind, what), []).append(topic)
