"""Who drives from a page, and when the velocity is taken back."""

import json

import msgspec
import pytest

from fcnet_teleop.controls import Command
from fcnet_teleop.monitor.driver import (
    COMMAND_TIMEOUT,
    LINGER,
    MAX_PAGES,
    REQUEST_TIMEOUT,
    SNAPSHOT_TIMEOUT,
    PageCommand,
    PageDriver,
)

ZERO, AHEAD = (0.0, 0.0, 0.0), (0.5, 0.0, 0.0)


class Page:
    """A page that has the newest snapshot, unless `seen` says otherwise."""

    def __init__(self, driver, name):
        self._driver = driver
        self._name = name
        self._number = 0

    def sends(self, velocity, now, seen=None, pose=None, number=None, style=None):
        self._number += 1
        seen = now if seen is None else seen
        command = PageCommand(self._name, number or self._number, seen, velocity, pose, style or {})
        return self._driver.update(command, now)


@pytest.fixture
def driver(robot):
    return PageDriver(robot.commands)


@pytest.fixture
def page(driver):
    return Page(driver, "one")


def forward(driver, now):
    velocity = driver.command(now).velocity
    return None if velocity is None else velocity["vx"]


def test_only_the_velocity_of_a_page_that_has_sent_zero_is_published_within_the_robots_ranges(driver, page, robot):
    assert "let go" in page.sends(AHEAD, 0.0)
    assert page.sends(ZERO, 0.05) == ""
    assert driver.command(0.1) == Command(None, None)
    assert page.sends((99.0, -99.0, 0.1), 0.1) == ""
    ranges = robot.commands
    assert driver.command(0.2).velocity == {"vx": ranges["vx"].highest, "vy": ranges["vy"].lowest, "yaw_rate": 0.1}


def test_letting_go_gives_zero_for_a_while_and_then_silence(driver, page):
    page.sends(ZERO, 0.0)
    page.sends(AHEAD, 0.1)
    page.sends(ZERO, 0.2)
    assert forward(driver, 0.3) == 0.0
    assert driver.command(0.2 + LINGER + 0.1).velocity is None
    assert page.sends(AHEAD, 5.0) == ""
    assert forward(driver, 5.1) == 0.5


def test_a_page_that_falls_silent_stops_the_robot_and_cannot_just_go_on(driver, page):
    page.sends(ZERO, 0.0)
    page.sends(AHEAD, 0.1)
    assert forward(driver, 0.1 + COMMAND_TIMEOUT) == 0.5
    late = 0.2 + COMMAND_TIMEOUT
    assert forward(driver, late) == 0.0
    assert "let go" in page.sends(AHEAD, late + 0.1)
    assert forward(driver, late + 0.1) == 0.0
    assert page.sends(ZERO, late + 0.2) == ""
    assert page.sends(AHEAD, late + 0.3) == ""
    assert forward(driver, late + 1.1) == 0.0


def test_a_timeout_counts_even_if_nothing_was_published_meanwhile(driver, page):
    page.sends(ZERO, 0.0)
    page.sends(AHEAD, 0.1)
    assert "let go" in page.sends(AHEAD, 10.0)


def test_who_does_not_see_the_robot_does_not_drive_it(driver, page):
    page.sends(ZERO, 0.0)
    page.sends(AHEAD, 10.0)
    assert "is 0.6 s old" in page.sends(AHEAD, 10.1, seen=10.0 - SNAPSHOT_TIMEOUT)
    assert forward(driver, 10.1) == 0.0
    page.sends(ZERO, 10.2)
    assert "outdated" in page.sends(AHEAD, 10.3, seen=99.0)  # of another run of the server


def test_a_command_that_was_overtaken_is_ignored(driver, page):
    page.sends(ZERO, 0.0, number=1)
    page.sends(AHEAD, 0.1, number=2)
    page.sends(ZERO, 0.2, number=4)
    page.sends(AHEAD, 0.3, number=3)
    assert forward(driver, 0.3) == 0.0


def test_only_one_page_drives(driver, page):
    other = Page(driver, "other")
    for each in (page, other):
        each.sends(ZERO, 0.0)
    page.sends(AHEAD, 0.1)
    assert "another page" in other.sends((-0.5, 0.0, 0.0), 0.2)
    other.sends(ZERO, 0.25)
    assert forward(driver, 0.3) == 0.5
    page.sends(ZERO, 0.4)
    assert other.sends((-0.5, 0.0, 0.0), 0.5) == ""
    assert forward(driver, 0.6) == -0.5


def test_a_change_of_mode_takes_the_velocity_back_from_all(driver, page):
    page.sends(ZERO, 0.0)
    page.sends(AHEAD, 0.1)
    driver.release(0.2)
    assert forward(driver, 0.2) == 0.0
    assert "let go" in page.sends(AHEAD, 0.3)


def test_pose_and_stride_of_a_page_that_does_not_see_the_robot_stay_as_they_are(driver, page):
    late = page.sends(ZERO, 5.0, seen=5.1 - 2 * REQUEST_TIMEOUT, pose=(0.0, 0.1, 0.0), style={"width": 0.1})
    assert "1.9 s old, the limit is 1 s" in late
    assert driver.command(5.1).pose is None
    assert driver.take_style() == {}
    assert page.sends(ZERO, 5.2, pose=(0.0, 0.1, 0.0)) == ""
    assert driver.command(5.3).pose["roll"] == 0.1


def test_a_pose_is_published_for_a_while_and_stays_within_the_ranges(driver, page, robot):
    page.sends(ZERO, 0.0, pose=(-9.0, 0.1, 0.0))
    assert driver.command(0.1).pose == {"height": robot.commands["height"].lowest, "roll": 0.1, "pitch": 0.0}
    assert driver.command(0.1).velocity is None
    assert driver.command(LINGER + 0.1).pose is None


def test_of_the_stride_what_has_changed_is_taken_once_and_within_the_ranges(driver, page, robot):
    page.sends(ZERO, 0.0, style={"width": 9.0})
    page.sends(ZERO, 0.1, style={"clearance": 0.01})
    assert driver.take_style() == {"width": robot.commands["width"].highest, "clearance": 0.01}
    assert driver.take_style() == {}


def test_the_oldest_of_pages_without_number_has_to_let_go_again(driver, page):
    page.sends(ZERO, 0.0)
    for number in range(MAX_PAGES):
        Page(driver, f"page {number}").sends(ZERO, 0.0)
    assert "let go" in page.sends(AHEAD, 0.1)


COMMAND = {"page": "one", "number": 1, "seen": 0.0, "velocity": [0.1, 0, 0], "pose": None}


def decode(content):
    return msgspec.json.decode(json.dumps(content), type=PageCommand)


@pytest.mark.parametrize(
    "change",
    [
        {"velocity": [1, 2]},
        {"velocity": [1, 2, float("nan")]},
        {"velocity": [1, 2, 10**400]},
        {"velocity": ["1", 2, 3]},
        {"number": 1.5},
        {"page": ""},
        {"page": "x" * 65},
        {"more": 1},
        {"style": {"speed": 0.1}},
        {"style": {"width": float("nan")}},
        {"style": {"width": 1e300}},
        None,
    ],
)
def test_what_is_no_command_is_refused(change):
    with pytest.raises(ValueError):
        decode([1, 2] if change is None else {**COMMAND, **change})
