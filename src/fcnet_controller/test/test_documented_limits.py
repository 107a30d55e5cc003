"""What docs/deployment.md and docs/inside.md say of trips, settings and times is what the code has."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

from fcnet_controller.parameters import ControllerParameters
from fcnet_core.control.controller import FOLLOWING_PATIENCE
from fcnet_core.robot import Safety, load_robot
from fcnet_ros.parameters import default_parameters, policy_rate
from unitree_bridge.hardware import BridgeParameters
from unitree_lowlevel.codec import PERIOD
from unitree_lowlevel.io_link import SILENCE
from unitree_lowlevel.io_process import END_DAMPING, ORPHAN_DAMPING
from unitree_lowlevel.safety.monitor import IDENTITY

WORKSPACE = Path(__file__).resolve().parents[3]
GUIDE = (WORKSPACE / "docs" / "deployment.md").read_text()
INSIDE = (WORKSPACE / "docs" / "inside.md").read_text()
LOW_LEVEL = WORKSPACE / "src" / "unitree_lowlevel" / "unitree_lowlevel"


def rows(after: str) -> list[list[str]]:
    """The cells of the table that follows a line with `after`."""
    lines = GUIDE.split(after, 1)[1].split("\n\n")[2].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_trip_is_explained_and_none_is_invented():
    only_warnings = {"foreign_packets", "rejected_packets", "unsent_commands"}
    only_warnings |= {"board_restarted", "old_states", "tick_jump"}
    explained = {name for row in rows("## Trips") for name in re.findall(r"`(\w+)`", row[0])}
    code = "\n".join(path.read_text() for path in (LOW_LEVEL / "driver.py", *(LOW_LEVEL / "safety").glob("*.py")))
    assert explained | only_warnings == {IDENTITY, *re.findall(r'(?:Finding|": )\(\s*"([a-z_]+)"', code)}
    assert all(f"`{name}`" in GUIDE for name in only_warnings)


def test_the_thresholds_of_the_trips_are_those_of_a_robot_file():
    for row in rows("## Trips"):
        assert set(re.findall(r"\b\w+_\w+\b", row[1])) <= {*Safety.__struct_fields__, "joint_trajectory"}


def test_the_page_of_the_fault_matrix_has_a_row_for_each_case():
    page = (WORKSPACE / "docs" / "fault_matrix.md").read_text()
    table = page.partition("| fault |")[2].partition("\n\n")[0].splitlines()[2:]
    cases = runpy.run_path(str(WORKSPACE / "benchmarks" / "bridge" / "fault_cases.py"))["CASES"]
    assert [line.split("|")[1].strip() for line in table] == [case.name for case in cases]


def test_the_recommended_parameters_exist():
    settings = yaml.safe_load((WORKSPACE / "config" / "bridges" / "real_time.yaml").read_text())
    kinds = {"aliengo_bridge": BridgeParameters, "a1_bridge": BridgeParameters, "controller": ControllerParameters}
    assert set(settings) == {f"/**/{node}" for node in kinds}, "in every namespace"
    for node, kind in kinds.items():
        assert set(settings[f"/**/{node}"]["ros__parameters"]) <= set(default_parameters(kind))


@pytest.mark.parametrize("name", ["aliengo", "a1"])
def test_an_inner_layer_damps_before_an_outer_one_takes_its_place_at_the_times_of_the_page(name):
    safety, controller = load_robot(name).safety, ControllerParameters()
    assert PERIOD < safety.max_cycle_gap < SILENCE < safety.command_timeout < safety.state_timeout
    assert safety.state_timeout < controller.state_timeout
    assert safety.command_timeout > 3.0 / policy_rate(name, "")  # three lost targets are no reason to damp
    table = INSIDE.partition("## Who damps, and when")[2]
    assert f"`command_timeout` ({safety.command_timeout:g} s)" in table
    assert f"`max_cycle_gap` ({safety.max_cycle_gap:g} s)" in table
    assert f"no cycle of the I/O process for {SILENCE:g} s" in table
    assert f"one cycle ({1e3 * PERIOD:g} ms)" in table
    assert f"{END_DAMPING:g} s of damping commands" in table
    assert f"{ORPHAN_DAMPING:g} s of damping commands" in table
    assert f"`state_timeout` ({controller.state_timeout:g} s)" in table
    assert f"age ({safety.state_timeout:g} s)" in table
    assert f"in fault within {FOLLOWING_PATIENCE:g} s" in table


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("driving.md", r"older than `cmd_vel_timeout` \(([\d.]+) s"),
        ("remote_control.md", r"in the last ([\d.]+) s \(the controller's `cmd_vel_timeout`"),
    ],
)
def test_a_velocity_command_counts_for_as_long_as_the_pages_say(page, sentence):
    (seconds,) = re.findall(sentence, (WORKSPACE / "docs" / page).read_text())
    assert ControllerParameters().cmd_vel_timeout == float(seconds)
