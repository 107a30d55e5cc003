"""Holds "Who damps, and when" of docs/inside.md to the code: the figures it states, and the order of the timeouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fcnet_controller.parameters import ControllerParameters
from fcnet_core.control.watchdogs import FOLLOWING_PATIENCE
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import PERIOD
from unitree_lowlevel.io_client import SILENCE
from unitree_lowlevel.io_process import END_DAMPING, ORPHAN_DAMPING

PAGE = Path(__file__).resolve().parents[3] / "docs" / "inside.md"


@pytest.mark.parametrize("name", ["aliengo", "a1"])
def test_an_inner_layer_damps_before_an_outer_one_takes_its_place(name):
    safety, controller = load_robot(name).safety, ControllerParameters()
    assert PERIOD < safety.max_cycle_gap < SILENCE < safety.command_timeout < safety.state_timeout
    assert safety.state_timeout < controller.state_timeout
    assert safety.command_timeout > 3.0 / controller.control_rate  # three lost targets are no reason to damp


@pytest.mark.parametrize("name", ["aliengo", "a1"])
def test_the_page_states_the_times_of_the_code(name):
    safety = load_robot(name).safety
    table = PAGE.read_text().partition("## Who damps, and when")[2]
    assert f"`command_timeout` ({safety.command_timeout:g} s)" in table
    assert f"`max_cycle_gap` ({safety.max_cycle_gap:g} s)" in table
    assert f"no cycle of the I/O process for {SILENCE:g} s" in table
    assert f"one cycle ({1e3 * PERIOD:g} ms)" in table
    assert f"{END_DAMPING:g} s of damping commands" in table
    assert f"{ORPHAN_DAMPING:g} s of damping commands" in table
    assert f"`state_timeout` ({ControllerParameters().state_timeout:g} s)" in table
    assert f"age ({safety.state_timeout:g} s)" in table
    assert f"in fault within {FOLLOWING_PATIENCE:g} s" in table
