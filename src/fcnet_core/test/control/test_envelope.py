"""Whatever is asked for, the policy sees what it was trained for: pose and style stay, the velocity is shortened."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec import ValidationError, convert, to_builtins

from fcnet_core.control.command import CommandShaper
from fcnet_core.control.envelope import FIELDS, HELD, Envelope
from fcnet_core.robot import SETPOINT_FIELDS, load_robot

ROBOT = load_robot("aliengo")
PERIOD = 0.02
RATE = np.array([ROBOT.commands[field].rate for field in SETPOINT_FIELDS])
WIDE = {"vy": 0.4, "yaw_rate": 1.2, "height": 0.02, "roll": 0.3, "pitch": 0.2}  # others: nothing
KNOTS = {-0.8: 0.3, -0.3: 0.8, 0.0: 1.0, 0.5: 1.0, 1.0: 0.6, 1.05: 0.1, 2.0: 0.0}  # share of WIDE


def scaled(shares: dict[float, float]) -> Envelope:
    ends = [(field, WIDE.get(field, 0.0)) for field in FIELDS]
    ranges = {field: [(-end * share, end * share) for share in shares.values()] for field, end in ends}
    return convert({"vx": list(shares), "ranges": ranges}, Envelope)


ENVELOPE = scaled(KNOTS)
anything = st.floats(-3, 3)
wishes = st.lists(arrays(np.float64, (2, len(SETPOINT_FIELDS)), elements=anything), min_size=1, max_size=8)


def wish(**fields: float) -> np.ndarray:
    return np.array([[fields.get(field, 0.0) for field in SETPOINT_FIELDS]])


def shaper(batch: int = 1, envelope: Envelope | None = ENVELOPE) -> CommandShaper:
    return CommandShaper(ROBOT.commands, ROBOT.gait, PERIOD, batch, envelope)


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


@given(st.integers(0, 10_000), wishes, st.integers(1, 60))
def test_every_setpoint_on_the_way_is_admitted_and_within_the_rates(seed, sequence, hold) -> None:
    envelope = random_envelope(seed)
    limited = shaper(2, envelope)
    for wanted in sequence:
        for _ in range(hold):
            before = limited.setpoint
            limited.step(wanted)
            assert admits(envelope, limited.setpoint).all()
            assert (np.abs(limited.setpoint - before) <= RATE * PERIOD + 1e-9).all()


@given(st.integers(0, 10_000), arrays(np.float64, (2, len(SETPOINT_FIELDS)), elements=anything))
def test_what_is_asked_for_is_reached_shortened(seed, wanted) -> None:
    envelope = random_envelope(seed)
    limited = shaper(2, envelope)
    for _ in range(400):
        limited.step(wanted)
    assert admits(envelope, limited.target).all()
    np.testing.assert_allclose(limited.setpoint, limited.target, atol=1e-6)


@given(st.integers(0, 10_000), arrays(np.float64, (2, len(SETPOINT_FIELDS)), elements=anything))
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
