"""One source owns the robot; who may begin, and what others cannot do meanwhile."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from unitree_lowlevel.driver import MOST_ARMED, DriverMode

NEAR = 0.05  # [rad]


@pytest.fixture
def owned(bench):
    """A robot that follows the targets of "walker"."""
    bench.awake().driver.damp("walker")
    assert bench.driver.owner == ""
    bench.run(0.7, bench.position, source="walker")
    assert bench.driver.owner == "walker"
    bench.driver.take_events()
    return bench


def test_targets_of_another_are_refused_and_both_are_named(owned):
    lying = owned.position.copy()
    for _ in range(40):
        owned.run(0.01, lying, source="walker")
        refusal = owned.send(lying + NEAR, "intruder")
        assert "walker" in refusal
        assert "intruder" in refusal
        owned.run(0.01)
    assert owned.driver.owner == "walker"
    np.testing.assert_array_equal(owned.position, lying)
    assert owned.driver.refused == 40
    assert any("intruder" in warning for warning in owned.driver.warnings)


def test_a_source_that_damps_all_the_time_disturbs_nobody_and_keeps_nobody_stiff(owned):
    last = owned.now
    while not owned.damped:
        assert owned.driver.damp("passive") is not None
        assert owned.send(owned.position, "passive") is not None
        owned.run(0.02, owned.position, source="walker") if owned.now - last < 1.0 else owned.run(0.02)
        assert owned.now - last < 1.11
    assert owned.now - last > 1.0
    assert owned.driver.owner == ""


def test_damps_of_one_source_arm_no_other(bench):
    bench.awake().driver.damp("passive")
    assert bench.send(bench.position, "walker") is not None
    bench.cycle()
    assert bench.damped
    assert bench.send(bench.position, "passive") is None


def test_a_source_whose_targets_were_refused_does_not_begin_by_itself_later(owned):
    owned.driver.damp("second")
    owned.run(0.1, owned.position, source="second")
    assert owned.driver.owner == ""  # the walker was silent
    owned.run(0.2, owned.position, source="second")
    assert owned.damped
    owned.driver.damp("second")
    owned.run(0.02, owned.position, source="second")
    assert owned.driver.owner == "second"


def test_the_owner_leaves_by_a_damp_and_another_that_is_armed_may_begin(owned):
    assert owned.driver.damp("second") is not None
    assert owned.driver.damp("walker") is None
    assert owned.send(owned.position, "second") is None
    assert owned.driver.owner == "second"
    assert [level for level, _ in owned.driver.take_events()] == [logging.INFO] * 2


def test_sources_that_damp_are_remembered_up_to_a_number(bench):
    bench.awake()
    for number in range(MOST_ARMED + 1):
        bench.driver.damp(f"source {number}")
    assert bench.send(bench.position, "source 0") is not None
    assert bench.send(bench.position, "source 1") is None


@pytest.mark.parametrize("end", ["trip", "deactivate"])
def test_after_a_trip_or_a_deactivation_a_new_damp_must_come_first(owned, end):
    driver = owned.driver
    driver.damp("second")
    if end == "trip":
        driver.emergency_stop("a test")
        owned.cycle()
        driver.damp("walker")
        driver.reset(owned.now)
    else:
        driver.deactivate()
        driver.damp("walker")
        driver.activate()
    owned.cycle()
    assert driver.mode is DriverMode.DAMPING
    for source in ("walker", "second"):
        assert owned.send(owned.position, source) is not None
