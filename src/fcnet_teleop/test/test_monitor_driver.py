"""Who drives from a page, and when the velocity is taken back."""

import json

import pytest

from fcnet_teleop.monitor.driver import LINGER, MOST_PAGES, OLDEST_PICTURE, SILENCE, MonitorDriver, Order, parse_order

ZERO, AHEAD = (0.0, 0.0, 0.0), (0.5, 0.0, 0.0)


class Page:
    """A page that has the newest picture, unless it is told otherwise."""

    def __init__(self, driver, name):
        self._driver = driver
        self._name = name
        self._number = 0

    def says(self, velocity, now, seen=None, pose=None, number=None):
        self._number += 1
        order = Order(self._name, number or self._number, now if seen is None else seen, velocity, pose)
        return self._driver.take(order, now)


@pytest.fixture
def driver(robot):
    return MonitorDriver(robot.commands)


@pytest.fixture
def page(driver):
    return Page(driver, "one")


def forward(driver, now):
    velocity = driver.velocity(now)
    return None if velocity is None else velocity["vx"]


def test_nothing_is_published_before_a_page_drives(driver, page):
    assert driver.velocity(0.0) is None
    page.says(ZERO, 0.0)
    assert driver.velocity(0.1) is None
    assert driver.pose(0.1) is None


def test_a_page_that_has_said_zero_drives_within_the_robots_ranges(driver, page, robot):
    page.says(ZERO, 0.0)
    assert page.says((99.0, -99.0, 0.1), 0.1) == ""
    ranges = robot.commands
    assert driver.velocity(0.2) == {"vx": ranges["vx"].highest, "vy": ranges["vy"].lowest, "yaw_rate": 0.1}


def test_a_page_that_comes_with_a_velocity_has_to_let_go_first(driver, page):
    assert "let go" in page.says(AHEAD, 0.0)
    assert driver.velocity(0.0) is None


def test_letting_go_gives_zero_for_a_while_and_then_silence(driver, page):
    page.says(ZERO, 0.0)
    page.says(AHEAD, 0.1)
    page.says(ZERO, 0.2)
    assert forward(driver, 0.3) == 0.0
    assert driver.velocity(0.2 + LINGER + 0.1) is None
    assert page.says(AHEAD, 5.0) == ""
    assert forward(driver, 5.1) == 0.5


def test_a_page_that_falls_silent_stops_the_robot_and_cannot_just_go_on(driver, page):
    page.says(ZERO, 0.0)
    page.says(AHEAD, 0.1)
    assert forward(driver, 0.1 + SILENCE) == 0.5
    late = 0.2 + SILENCE
    assert forward(driver, late) == 0.0
    assert "let go" in page.says(AHEAD, late + 0.1)
    assert forward(driver, late + 0.1) == 0.0
    page.says(ZERO, late + 0.2)
    assert page.says(AHEAD, late + 0.3) == ""


def test_silence_is_noticed_even_if_nobody_published_meanwhile(driver, page):
    page.says(ZERO, 0.0)
    page.says(AHEAD, 0.1)
    assert "let go" in page.says(AHEAD, 10.0)


def test_who_does_not_see_the_robot_does_not_drive_it(driver, page):
    page.says(ZERO, 0.0)
    page.says(AHEAD, 10.0)
    assert "picture" in page.says(AHEAD, 10.1, seen=10.05 - OLDEST_PICTURE)
    assert forward(driver, 10.1) == 0.0
    page.says(ZERO, 10.2)
    assert "picture" in page.says(AHEAD, 10.3, seen=99.0)  # of another run of the server


def test_an_order_that_was_overtaken_is_ignored(driver, page):
    page.says(ZERO, 0.0, number=1)
    page.says(AHEAD, 0.1, number=2)
    page.says(ZERO, 0.2, number=4)
    page.says(AHEAD, 0.3, number=3)
    assert forward(driver, 0.3) == 0.0


def test_only_one_page_drives(driver, page):
    other = Page(driver, "other")
    for each in (page, other):
        each.says(ZERO, 0.0)
    page.says(AHEAD, 0.1)
    assert "another page" in other.says((-0.5, 0.0, 0.0), 0.2)
    other.says(ZERO, 0.25)
    assert forward(driver, 0.3) == 0.5
    page.says(ZERO, 0.4)
    assert other.says((-0.5, 0.0, 0.0), 0.5) == ""
    assert forward(driver, 0.6) == -0.5


def test_a_change_of_mode_takes_the_velocity_back_from_all(driver, page):
    page.says(ZERO, 0.0)
    page.says(AHEAD, 0.1)
    driver.let_go_of_all(0.2)
    assert forward(driver, 0.2) == 0.0
    assert "let go" in page.says(AHEAD, 0.3)


def test_a_pose_is_told_for_a_while_and_stays_within_the_ranges(driver, page, robot):
    page.says(ZERO, 0.0, pose=(-9.0, 0.1, 0.0))
    assert driver.pose(0.1) == {"height": robot.commands["height"].lowest, "roll": 0.1, "pitch": 0.0}
    assert driver.velocity(0.1) is None
    assert driver.pose(LINGER + 0.1) is None


def test_pages_without_number_do_not_fill_the_memory(driver):
    for number in range(10 * MOST_PAGES):
        Page(driver, f"page {number}").says(ZERO, 0.0)
    assert len(driver._numbers) <= MOST_PAGES
    assert len(driver._ready) <= MOST_PAGES


ORDER = {"page": "one", "number": 1, "seen": 0.0, "velocity": [0.1, 0, 0], "pose": None}


def test_an_order_is_read_from_json():
    assert parse_order(json.loads(json.dumps(ORDER))) == Order("one", 1, 0.0, (0.1, 0.0, 0.0), None)
    assert parse_order({**ORDER, "pose": [0, 0.1, 0]}).pose == (0.0, 0.1, 0.0)


@pytest.mark.parametrize(
    "change",
    [
        {"velocity": [1, 2]},
        {"velocity": [1, 2, float("nan")]},
        {"velocity": [1, 2, float("inf")]},
        {"velocity": [1, 2, 10**400]},
        {"velocity": ["1", 2, 3]},
        {"velocity": [True, 2, 3]},
        {"velocity": None},
        {"pose": [1]},
        {"seen": None},
        {"number": 1.5},
        {"number": True},
        {"page": ""},
        {"page": "x" * 65},
        {"more": 1},
    ],
)
def test_what_is_no_order_is_refused_in_words(change):
    with pytest.raises(ValueError):
        parse_order({**ORDER, **change})


def test_what_is_no_mapping_is_refused():
    with pytest.raises(ValueError):
        parse_order([1, 2])
