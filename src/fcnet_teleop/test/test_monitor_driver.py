"""Who drives from a page, and when the velocity is taken back."""

import json

import msgspec
import pytest

from fcnet_teleop.controls import Command
from fcnet_teleop.monitor import driver as limits
from fcnet_teleop.monitor.driver import COMMAND_TIMEOUT, LINGER, PageCommand, PageDriver

ZERO, AHEAD = (0.0, 0.0, 0.0), (0.5, 0.0, 0.0)


class Page:
    """A page that has the newest snapshot, unless `seen` says otherwise."""

    def __init__(self, driver, name):
        self._driver, self._name, self._number = driver, name, 0

    def sends(self, velocity, now, seen=None, number=None, **changes):
        self._number += 1
        seen = now if seen is None else seen
        changes = {"pose": None, **changes}
        return self._driver.update(PageCommand(self._name, number or self._number, seen, velocity, **changes), now)

    def drives(self, now):
        """Send zero and a velocity, from `now` [s] on."""
        assert self.sends(ZERO, now) == self.sends(AHEAD, now) == ""
        return self


@pytest.fixture
def driver(robot):
    return PageDriver(robot.commands)


@pytest.fixture
def page(driver):
    return Page(driver, "one")


@pytest.fixture
def driving(page):
    return page.drives(0.0)


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


def test_letting_go_gives_zero_for_a_while_and_then_silence(driver, driving):
    driving.sends(ZERO, 0.2)
    assert forward(driver, 0.3) == 0.0
    assert driver.command(0.2 + LINGER + 0.1).velocity is None
    assert driving.sends(AHEAD, 5.0) == ""
    assert forward(driver, 5.1) == 0.5


def test_a_page_that_falls_silent_stops_the_robot_and_cannot_just_go_on(driver, driving):
    assert forward(driver, COMMAND_TIMEOUT) == 0.5
    late = 0.1 + COMMAND_TIMEOUT
    assert forward(driver, late) == 0.0
    assert "let go" in driving.sends(AHEAD, late + 0.1)
    assert forward(driver, late + 0.1) == 0.0
    driving.drives(late + 0.2)
    assert forward(driver, late + 1.1) == 0.0
    driving.drives(late + 2.0)
    assert "let go" in driving.sends(AHEAD, late + 12.0)  # though nothing was published meanwhile


def test_who_does_not_see_the_robot_does_not_drive_it(driver, page):
    page.drives(10.0)
    assert "is 0.6 s old" in page.sends(AHEAD, 10.1, seen=10.0 - limits.SNAPSHOT_TIMEOUT)
    assert forward(driver, 10.1) == 0.0
    page.sends(ZERO, 10.2)
    assert "outdated" in page.sends(AHEAD, 10.3, seen=99.0)  # of another run of the server


def test_a_command_that_was_overtaken_is_ignored(driver, driving):
    driving.sends(ZERO, 0.2, number=4)
    driving.sends(AHEAD, 0.3, number=3)
    assert forward(driver, 0.3) == 0.0


def test_only_one_page_drives(driver, driving):
    other = Page(driver, "other")
    other.sends(ZERO, 0.0)
    assert "another page" in other.sends((-0.5, 0.0, 0.0), 0.2)
    other.sends(ZERO, 0.25)
    assert forward(driver, 0.3) == 0.5
    driving.sends(ZERO, 0.4)
    assert other.sends((-0.5, 0.0, 0.0), 0.5) == ""
    assert forward(driver, 0.6) == -0.5


def test_a_change_of_mode_takes_the_velocity_back_from_all(driver, driving):
    driver.release(0.2)
    assert forward(driver, 0.2) == 0.0
    assert "let go" in driving.sends(AHEAD, 0.3)


def test_pose_and_stride_of_a_page_that_does_not_see_the_robot_stay_as_they_are(driver, page):
    late = page.sends(ZERO, 5.0, seen=5.1 - 2 * limits.REQUEST_TIMEOUT, pose=(0.0, 0.1, 0.0), style={"width": 0.1})
    assert "1.9 s old, the limit is 1 s" in late
    assert driver.command(5.1).pose is None
    assert driver.take_style() == {}


def test_a_pose_is_published_for_a_while_and_stays_within_the_ranges(driver, page, robot):
    assert page.sends(ZERO, 0.0, pose=(-9.0, 0.1, 0.0)) == ""
    assert driver.command(0.1).pose == {"height": robot.commands["height"].lowest, "roll": 0.1, "pitch": 0.0}
    assert driver.command(0.1).velocity is None
    assert driver.command(LINGER + 0.1).pose is None


def test_of_the_stride_what_has_changed_is_taken_once_and_within_the_ranges(driver, page, robot):
    page.sends(ZERO, 0.0, style={"width": 9.0})
    page.sends(ZERO, 0.1, style={"clearance": 0.01})
    assert driver.take_style() == {"width": robot.commands["width"].highest, "clearance": 0.01}
    assert driver.take_style() == {}


COMMAND = {"page": "one", "number": 1, "seen": 0.0, "velocity": [0.1, 0, 0], "pose": None}


@pytest.mark.parametrize(
    "change",
    [
        *({"velocity": velocity} for velocity in ([1, 2], [1, 2, float("nan")], [1, 2, 10**400], ["1", 2, 3])),
        *({"style": style} for style in ({"speed": 0.1}, {"width": float("nan")}, {"width": 1e300})),
        *({"page": page} for page in ("", "x" * 65)),
        {"number": 1.5},
        {"more": 1},
    ],
)
def test_what_is_no_command_is_refused(change):
    with pytest.raises(ValueError):
        msgspec.json.decode(json.dumps(COMMAND | change), type=PageCommand)
