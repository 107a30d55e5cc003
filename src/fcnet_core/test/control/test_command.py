"""Whatever is asked for, the policy sees commands within ranges, rates and the envelope of its training. The gait clock
is a function of commands and time: it starts at once and stops on whole or half strides.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec import ValidationError, convert, structs, to_builtins

from fcnet_core.control.command import CommandShaper, GaitClock
from fcnet_core.control.envelope import FIELDS, HELD, Envelope
from fcnet_core.robot import SETPOINT_FIELDS, load_robot

ROBOT = load_robot("aliengo")
PERIOD = 0.02
LOWEST, HIGHEST, RATE = np.array([structs.astuple(ROBOT.commands[field]) for field in SETPOINT_FIELDS]).T
anything = st.floats(allow_nan=False, allow_infinity=True)
wishes = st.lists(arrays(np.float64, (2, len(SETPOINT_FIELDS)), elements=anything), min_size=1, max_size=20)


def shaper(batch: int = 1, envelope: Envelope | None = None) -> CommandShaper:
    return CommandShaper(ROBOT.commands, ROBOT.gait, PERIOD, batch, envelope)


def wish(**fields: float) -> np.ndarray:
    return np.array([[fields.get(field, 0.0) for field in SETPOINT_FIELDS]])


@given(wishes)
def test_setpoints_stay_in_range_and_rate_whatever_is_asked_for(sequence) -> None:
    limited = shaper(batch=2)
    for wanted in sequence:
        before = limited.setpoint
        limited.step(wanted)
        assert ((limited.setpoint >= LOWEST) & (limited.setpoint <= HIGHEST)).all()
        assert (np.abs(limited.setpoint - before) <= RATE * PERIOD + 1e-12).all()


@given(wishes, st.integers(0, len(SETPOINT_FIELDS) - 1))
def test_nan_is_refused_before_anything_changes(sequence, field) -> None:
    disturbed, calm = shaper(batch=2), shaper(batch=2)
    for wanted in sequence:
        bad = wanted.copy()
        bad[1, field] = np.nan
        with pytest.raises(ValueError, match="not a number; send finite commands"):
            disturbed.step(bad)
        for one in (disturbed, calm):
            one.step(wanted)
        np.testing.assert_array_equal(disturbed.setpoint, calm.setpoint)


@pytest.mark.parametrize("field", SETPOINT_FIELDS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_setpoint_reaches_its_limit_in_the_time_its_rate_takes_and_stays(field, sign) -> None:
    limited, index = shaper(), SETPOINT_FIELDS.index(field)
    limit = (HIGHEST if sign > 0 else LOWEST)[index]
    steps = int(np.ceil(abs(limit) / (RATE[index] * PERIOD) - 1e-9))
    for _ in range(steps - 1):
        limited.step(wish(**{field: sign * np.inf}))
    assert abs(limited.setpoint[0, index]) < abs(limit)
    for _ in range(3):
        limited.step(wish(**{field: sign * np.inf}))
        assert limited.setpoint[0, index] == pytest.approx(limit)


def test_slow_velocities_within_the_deadband_count_as_zero() -> None:
    limited = CommandShaper(ROBOT.commands, ROBOT.gait, PERIOD, deadband=0.2)
    limited.step(wish(vx=0.15, vy=0.1, yaw_rate=0.1))
    np.testing.assert_array_equal(limited.target, wish(yaw_rate=0.1))
    limited.step(wish(vx=0.2, vy=0.1))
    np.testing.assert_array_equal(limited.target, wish(vx=0.2, vy=0.1))


SLOWEST_HALF_STRIDE = 0.5 / (ROBOT.gait.frequency + ROBOT.commands["frequency"].lowest)
speeds = st.one_of(st.just(0.0), st.floats(ROBOT.commands["vx"].lowest, ROBOT.commands["vx"].highest))
offsets = st.floats(ROBOT.commands["frequency"].lowest, ROBOT.commands["frequency"].highest)
# Stretches of constant commands: (speed, frequency offset, periods).
drives = st.lists(st.tuples(speeds, offsets, st.integers(1, 60)), min_size=1, max_size=6)


@given(drives)
def test_the_clock_moves_by_its_frequency_stops_after_half_strides_and_lingers_after_commands(drive) -> None:
    gait, since = GaitClock(ROBOT.gait, PERIOD), np.inf
    for wanted in [wish(vx=vx, frequency=frequency) for vx, frequency, count in drive for _ in range(count)]:
        before, walked = gait.phase[0], gait.walking[0]
        gait.advance(wanted)
        assert 0.0 <= gait.phase[0] < 1.0
        moved, step = (gait.phase[0] - before) % 1.0, gait.frequency(wanted)[0] * PERIOD
        if gait.walking[0]:
            assert moved == pytest.approx(step)
        else:
            assert gait.phase[0] in (0.0, 0.5)
            assert moved <= step if walked else moved == 0.0  # never back, never ahead
        since = 0.0 if abs(wanted[0, 0]) > ROBOT.gait.threshold else since + PERIOD
        if since < ROBOT.gait.linger - 1e-9:
            assert gait.walking[0]
        if since > ROBOT.gait.linger + SLOWEST_HALF_STRIDE + 2 * PERIOD:
            assert not gait.walking[0]


@pytest.mark.parametrize("field", ["vx", "vy", "yaw_rate"])
def test_every_direction_of_motion_moves_the_clock_and_posture_does_not(field) -> None:
    gait = GaitClock(ROBOT.gait, PERIOD)
    still = dict.fromkeys(("height", "roll", "pitch", "width", "clearance", "frequency"), 0.2)
    gait.advance(wish(**still))
    assert not gait.walking[0]
    gait.advance(wish(**still, **{field: -0.3}))
    assert gait.walking[0]


def test_strides_are_faster_above_the_knee_speed() -> None:
    gait, knee = GaitClock(ROBOT.gait, PERIOD), ROBOT.gait.speed_knee
    slow, fast = (gait.frequency(wish(vx=vx))[0] for vx in (knee, knee + 0.6))
    assert slow == pytest.approx(ROBOT.gait.frequency)
    assert fast == pytest.approx(ROBOT.gait.frequency + 0.6 * ROBOT.gait.frequency_gain)


# The envelope: pose and style stay, the velocity is shortened.

moderate = arrays(np.float64, (2, len(SETPOINT_FIELDS)), elements=st.floats(-3, 3))


def admits(envelope: Envelope, setpoints: np.ndarray) -> np.ndarray:
    """Whether vx is within the knots and every other field within its range at that vx."""
    vx, rounding = setpoints[:, 0], 1e-9
    ends = [np.interp(vx, envelope.vx, column) for column in envelope.table.reshape(len(envelope.vx), -1).T]
    lowest, highest = np.reshape(ends, (len(FIELDS), 2, -1)).T.swapaxes(0, 1)
    inside = ((lowest - rounding <= setpoints[:, 1:]) & (setpoints[:, 1:] <= highest + rounding)).all(axis=1)
    return inside & (envelope.vx[0] - rounding <= vx) & (vx <= envelope.vx[-1] + rounding)


def random_envelope(seed: int) -> Envelope:
    """Knots and ranges at random, narrower outwards on both sides."""
    rng = np.random.default_rng(seed)
    sides = [np.sort(rng.uniform(0.05, 2.0, rng.integers(0, 4))) for _ in range(2)]
    vx = [*(-sides[0][::-1]).tolist(), 0.0, *sides[1].tolist()]
    rest = rng.uniform(0, 0.5, (len(FIELDS), 2)).round(3)
    table = np.empty((len(vx), len(FIELDS), 2))
    for side in (range(len(sides[0]), -1, -1), range(len(sides[0]), len(vx))):
        share = np.ones((len(FIELDS), 2))
        for knot in side:
            table[knot] = rest * share * [-1, 1]
            share = share * rng.choice([1.0, 1.0, 0.5, 0.0], share.shape)
    return convert({"vx": vx, "ranges": {name: table[:, i].tolist() for i, name in enumerate(FIELDS)}}, Envelope)


@given(st.integers(0, 10_000), st.lists(moderate, min_size=1, max_size=8), st.integers(1, 60))
def test_every_setpoint_on_the_way_is_admitted_and_within_the_rates(seed, sequence, hold) -> None:
    envelope = random_envelope(seed)
    limited = shaper(2, envelope)
    for wanted in sequence:
        for _ in range(hold):
            before = limited.setpoint
            limited.step(wanted)
            assert admits(envelope, limited.setpoint).all()
            assert (np.abs(limited.setpoint - before) <= RATE * PERIOD + 1e-9).all()


@given(st.integers(0, 10_000), moderate)
def test_what_is_asked_for_is_reached_shortened(seed, wanted) -> None:
    envelope = random_envelope(seed)
    limited = shaper(2, envelope)
    for _ in range(400):
        limited.step(wanted)
    assert admits(envelope, limited.target).all()
    np.testing.assert_allclose(limited.setpoint, limited.target, atol=1e-6)


@given(st.integers(0, 10_000), moderate)
def test_velocities_keep_their_direction_and_are_not_shortened_more_than_needed(seed, wanted) -> None:
    envelope = random_envelope(seed)
    wanted[:, 0] = np.clip(wanted[:, 0], envelope.vx[0], envelope.vx[-1])
    wanted[np.abs(wanted) < 0.05] = 0.0  # a thousandth more of so slow a walk is less than the rounding of sums
    shortened = envelope.shorten(wanted)
    np.testing.assert_allclose(envelope.shorten(shortened), shortened, atol=1e-9)
    for asked, given_ in zip(wanted[:, :3], shortened[:, :3], strict=True):
        assume(np.linalg.norm(asked) > 1e-3)
        share = given_ @ asked / (asked @ asked)
        assert -1e-9 <= share <= 1 + 1e-9
        np.testing.assert_allclose(given_, share * asked, atol=1e-9)
    longer = shortened.copy()
    longer[:, :3] += 1e-3 * wanted[:, :3]
    was_cut = (np.abs(shortened[:, :3] - wanted[:, :3]) > 2e-3).any(axis=1)
    assert not admits(envelope, longer)[was_cut].any()


def driven(parts: list[tuple[float, dict[str, tuple[float, float]]]], seed: int = 0) -> np.ndarray:
    """Setpoints uniform in ranges, for so many seconds each."""
    rng, rows = np.random.default_rng(seed), []
    for seconds, ranges in parts:
        part = np.zeros((round(seconds / PERIOD), len(SETPOINT_FIELDS)))
        for field, ends in ranges.items():
            part[:, SETPOINT_FIELDS.index(field)] = rng.uniform(*ends, len(part))
        rows.append(part)
    return np.concatenate(rows)


def envelope_of(*data: np.ndarray) -> Envelope:
    """The envelope of data in parts, which have one."""
    envelope = Envelope.from_setpoints(data, 1 / PERIOD, ROBOT.commands)
    assert envelope is not None
    return envelope


def test_an_envelope_is_what_the_data_hold_at_each_speed() -> None:
    walk = {"vx": (-0.5, 1.0), "vy": (-0.3, 0.3), "roll": (-0.2, 0.2)}
    run = {"vx": (0.8, 2.0), "vy": (-0.1, 0.1)}
    data = driven([(1500, walk), (1500, run)])
    envelope = envelope_of(data)
    assert (envelope.vx[0], envelope.vx[-1]) == pytest.approx((-0.5, 2.0), abs=0.02)
    assert envelope_of(*np.array_split(data, 7)) == envelope
    assert admits(envelope, data).mean() > 0.8
    assert admits(envelope, wish(vx=0.5, vy=0.27, roll=-0.18)).all()
    assert admits(envelope, wish(vx=1.95, vy=0.08)).all()
    for beyond in ({"vx": 1.5, "roll": 0.05}, {"vx": 1.5, "vy": 0.15}, {"vx": -0.7}, {"vx": 0.5, "vy": 0.35}):
        assert not admits(envelope, wish(**beyond)).any(), beyond
    assert not admits(envelope, wish(pitch=0.01)).any()


def test_what_was_commanded_for_a_moment_does_not_count() -> None:
    usual = driven([(200, {"vx": (-0.2, 0.4), "vy": (-0.1, 0.1)})])
    rare = driven([(HELD / 2, {"vx": (0.0, 0.01), "vy": (-0.4, 0.4)}), (HELD, {"vx": (1.9, 2.0)})])
    envelope = envelope_of(usual, rare)
    assert envelope.vx[-1] < 0.5
    assert envelope.outermost["vy"][1] <= 0.1


def test_data_of_moments_have_no_envelope_and_others_admit_a_standing_robot() -> None:
    assert Envelope.from_setpoints([driven([(HELD, {"vx": (0, 1)})])], 1 / PERIOD, ROBOT.commands) is None
    fast = envelope_of(driven([(100, {"vx": (0.9, 1.0), "vy": (-0.1, 0.1), "clearance": (0.03, 0.08)})]))
    assert admits(fast, wish()).all()
    assert admits(fast, wish(vx=0.95, clearance=0.05)).all()
    still = envelope_of(driven([(100, {})]))
    assert still.vx == (0.0,)
    np.testing.assert_array_equal(still.shorten(wish(vx=1.0, vy=-0.2, roll=0.1)), wish())


KNOTS = [-0.8, -0.3, 0.0, 0.5, 1.0, 1.05, 2.0]
ENVELOPE = convert({"vx": KNOTS, "ranges": dict.fromkeys(FIELDS, [[-0.1, 0.1]] * len(KNOTS))}, Envelope)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("vx", [-0.8, -0.3, 0.0, 0.5, 0.5, 1.05, 2.0]),
        ("vx", [-0.8, -0.3, 0.1, 0.5, 1.0, 1.05, 2.0]),
        ("vx", [2.0, 1.0, 0.9, 0.5, 0.0, -0.3, -0.8]),
        ("vx", [-0.8, -0.3, 0.0, 0.5, 1.0, 1.05, float("nan")]),
        ("vx", [-0.8, 0.0]),
        ("vy", [[-0.1, 0.1]] * 6),
        ("vy", [[0.1, 0.2]] * 7),
        ("vy", [[0.2, -0.2]] * 7),
        ("vy", [[-0.1, 0.1]] * 6 + [[-0.1, 0.2]]),
        ("vy", [[-0.2, 0.1]] + [[-0.1, 0.1]] * 6),
        ("sideways", [[-0.1, 0.1]] * 7),
    ],
)
def test_an_inconsistent_envelope_is_refused(entry, value) -> None:
    facts = to_builtins(ENVELOPE)
    if entry == "vx":
        facts["vx"] = value
    else:
        facts["ranges"][entry] = value
    with pytest.raises(ValidationError):
        convert(facts, Envelope)


def test_a_pose_of_standing_robots_alone_is_for_standing_robots() -> None:
    envelope = envelope_of(driven([(200, {"vx": (-0.5, 0.5)}), (200, {"height": (-0.1, 0.0)})]))
    vx, height = envelope.shorten(wish(vx=0.4, height=-0.08))[0, [0, 3]]
    assert (vx, height) == (pytest.approx(0.0, abs=0.1), -0.08)


@given(st.integers(0, 1000))
def test_a_pose_that_a_standing_robot_may_have_lets_it_walk(seed) -> None:
    rng = np.random.default_rng(seed)
    # Ends that are more than what a table in thousandths rounds away.
    ends = np.sort(rng.uniform(0.01, 0.1, (len(FIELDS), 2)) * rng.choice([-1, 1], (len(FIELDS), 2)))
    walk, stand = (dict(zip(FIELDS, map(tuple, share * ends), strict=True)) for share in (1.0, 1.5))
    walk, stand = {"vx": (-0.6, 0.9), **walk}, {"vx": (0.0, 0.0), **stand}
    envelope = envelope_of(driven([(3000, walk), (50, stand)], seed))
    lowest, highest = envelope.table[envelope.vx.index(0.0)].T
    ends = np.where(rng.random(len(FIELDS)) < 0.5, lowest, highest)
    ends[:2] = 0.0
    for vx in (-0.2, 0.2):
        assert admits(envelope, np.array([[vx, *ends]])).all()
