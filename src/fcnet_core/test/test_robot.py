"""A robot file is the only source of a robot's facts, so a mistake in it is refused in one sentence."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from made_robots import BIPED, TAILED
from msgspec import structs

from fcnet_core.control.command import CommandShaper
from fcnet_core.errors import FcnetError
from fcnet_core.robot import FIXED, LEGS, ROBOT_FOLDER, SETPOINT_FIELDS, load_robot
from fcnet_core.urdf import robot_urdf


@pytest.fixture
def facts() -> dict[str, Any]:
    return yaml.safe_load((ROBOT_FOLDER / "aliengo.yaml").read_text())


def refusal(facts: Any, tmp_path) -> str:
    path = tmp_path / "broken.yaml"
    path.write_text(yaml.safe_dump(facts, sort_keys=False))
    with pytest.raises(FcnetError) as caught:
        load_robot(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["aliengo", "a1"])
def test_every_robot_is_whole(name) -> None:
    robot = load_robot(name)
    assert robot.name == name and len(robot.joint_names) == 12 and 8 < robot.mass < 30
    assert ((robot.lower < robot.stand_pose) & (robot.stand_pose < robot.upper) & (robot.torque_limit > 10)).all()
    assert not robot.safety.unwatched and FIXED not in robot.commands.values()
    assert robot.safety.command_timeout <= 0.09  # if the controller exits, the robot is damped within 0.1 s
    hips = robot.leg_rows[:, 0]
    np.testing.assert_array_equal(robot.lower[hips], -robot.upper[hips[[1, 0, 3, 2]]])  # right and left are mirrored


def test_a_robot_of_other_joints_has_what_its_file_gives_and_refuses_the_rest() -> None:
    robot = load_robot(BIPED)
    assert len(robot.joint_names) == 8 and robot.joint_names[2:4] == ("left_knee", "left_ankle")
    np.testing.assert_array_equal(robot.kp, [80, 80, 80, 30] * 2)
    np.testing.assert_array_equal(robot.kd, [2, 2, 2, 1] * 2)
    np.testing.assert_array_equal(robot.torque_limit, [80, 80, 80, 40] * 2)
    assert robot.lie_pose is None and robot.rest_pose is robot.stand_pose
    assert robot.model is not None and Path(robot.model.file).is_file()
    assert robot_urdf(robot) == Path(robot.model.file).read_text()
    with pytest.raises(FcnetError, match="no URDF"):
        robot_urdf(structs.replace(robot, model=structs.replace(robot.model, file="biped.xml")))
    for part in ("leg_rows", "geometry", "mass", "body"):
        with pytest.raises(FcnetError, match="biped"):
            getattr(robot, part)
    shaper = CommandShaper(robot.commands, robot.gait, 0.02)
    for _ in range(200):
        shaper.step(np.ones((1, len(SETPOINT_FIELDS))))
    np.testing.assert_allclose(shaper.setpoint, [[0.5, 0, 0.5, 0, 0, 0, 0, 0, 0]])
    assert not shaper.clock.walking


def test_the_rows_of_legs_are_found_by_name_in_any_order() -> None:
    robot = load_robot(TAILED)
    assert len(robot.joint_names) == 13 and robot.kp[robot.joint_names.index("tail_joint")] == 10
    robot = structs.replace(robot, legs=dict(reversed(robot.legs.items())))
    names = [[robot.joint_names[row] for row in rows] for rows in robot.leg_rows]
    assert names == [[f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf")] for leg in LEGS]


def test_a_path_and_a_name_give_the_same_robot_and_an_unknown_one_is_an_error_with_the_known_ones(monkeypatch) -> None:
    assert load_robot(ROBOT_FOLDER / "a1.yaml") == load_robot("a1")
    with pytest.raises(FcnetError, match="a1, aliengo"):
        load_robot("tailed")
    monkeypatch.setenv("FCNET_ROBOTS", str(TAILED.parent))
    assert load_robot("tailed") == load_robot(TAILED) and load_robot("a1").name == "a1"


@pytest.mark.parametrize("other", ["/nonexistent", str(TAILED), "x" * 300])
def test_other_robots_that_are_in_no_folder_are_an_error_that_names_the_variable(monkeypatch, other) -> None:
    monkeypatch.setenv("FCNET_ROBOTS", other)
    with pytest.raises(FcnetError, match=f"FCNET_ROBOTS names {other}"):
        load_robot("a1")


@pytest.mark.parametrize(
    "section", [None, "motors", "joints", "gains", "legs", "primitives", "gait", "commands", "safety"]
)
def test_an_unknown_entry_is_named(facts, tmp_path, section) -> None:
    (facts if section is None else facts[section])["colour"] = {"red": 1}
    message = refusal(facts, tmp_path)
    assert (section if section in ("motors", "joints", "legs", "commands") else "colour") in message


@pytest.mark.parametrize(
    "place",
    [
        *("name", "legs", "motors", "joints", "gains", "primitives", "safety"),
        *("motors.calf", "joints.FR_hip_joint", "gains.kd", "safety.max_tilt"),
    ],
)
def test_a_missing_entry_is_named(facts, tmp_path, place) -> None:
    *sections, entry = place.split(".")
    del (facts[sections[0]] if sections else facts)[entry]
    assert entry in refusal(facts, tmp_path)


NUMBERS = (0, -0.1, True, "0.08", None, float("inf"), float("nan"), [0.08])  # no positive ones


@pytest.mark.parametrize(
    ("section", "changes", "named"),
    [
        ("motors", {"calf": {"full_torque_speed": 1e3}}, "full_torque_speed"),
        ("joints", {"FL_calf_joint": {"limits": [-0.6, -2.7]}}, "lower limit"),
        ("joints", {"RL_calf_joint": {"stand": -2.9}}, "RL_calf_joint"),
        ("joints", {"RL_calf_joint": {"lie": None}}, "lie"),
        ("gains", {"kp": {"*_hip_joint": 50.0, "*": 60.0}}, "FR_hip_joint"),
        ("commands", {"vx": [0.1, 1.0, 1.0]}, "vx"),
        ("safety", {"max_kp": 50.0}, "max_kp"),
        ("safety", {"max_kd": 3.0}, "max_kd"),
        ("safety", {"temperature_warning": 80.0}, "temperature"),
        ("safety", {"packet_loss_warning": 0.3}, "packet loss"),
        *(("safety", {"command_timeout": number}, "safety.command_timeout") for number in NUMBERS),
    ],
)
def test_values_that_cannot_be_or_contradict_each_other_are_refused(facts, tmp_path, section, changes, named) -> None:
    for entry, value in changes.items():
        facts[section][entry] = facts[section][entry] | value if isinstance(facts[section][entry], dict) else value
    assert named in refusal(facts, tmp_path)


@pytest.mark.parametrize("content", ["", "[1, 2]", "name: [unclosed", "legs: {FR: 1}", "text"])
def test_a_file_that_is_no_robot_is_refused(tmp_path, content) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(content)
    with pytest.raises(FcnetError, match=re.escape(str(path))):
        load_robot(path)
