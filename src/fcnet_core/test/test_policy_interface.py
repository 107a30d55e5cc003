"""Interfaces of real policies can be written down; parts that do not fit each other are refused."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml

from fcnet_core.errors import FcnetError
from fcnet_core.files import converted
from fcnet_core.observation import ARRAYS, ROBOT_SIGNALS, PolicyInterface, velocity_interface
from fcnet_core.robot import load_robot

CARDS = yaml.safe_load((Path(__file__).parent / "data/policy_interfaces.yaml").read_text())
ROBOT_ONLY = {"aliengo_fcnet", "biped_gru", "go1_walk_these_ways", "go2_him", "go2_robot_lab"}


def interface_of(name: str, change: Callable[[Any], object] = lambda section: None) -> PolicyInterface:
    section = copy.deepcopy(CARDS[name]["interface"])
    change(section)
    return converted(section, PolicyInterface)


@pytest.mark.parametrize("name", CARDS)
def test_the_terms_and_the_action_give_the_sizes_of_the_network(name) -> None:
    interface = interface_of(name)
    assert {key: list(shape) for key, shape in interface.shapes.items()} == CARDS[name]["inputs"]
    assert {key: [size] for key, size in interface.outputs.items()} == CARDS[name]["outputs"]
    assert msgspec.json.decode(msgspec.json.encode(interface), type=PolicyInterface) == interface
    assert (set(interface.reads) <= set(ROBOT_SIGNALS)) == (name in ROBOT_ONLY or name == "")


def test_the_preset_is_todays_observation_for_any_number_of_joints() -> None:
    robot, biped = load_robot("aliengo"), interface_of("biped_gru")
    written, made = interface_of("aliengo_fcnet"), velocity_interface(robot)
    assert (made.inputs, made.action, made.commands.gait) == (written.inputs, written.action, written.commands.gait)
    assert made.spec["observation"] == ARRAYS["observation"] and made.joints == robot.joint_names
    np.testing.assert_array_equal(made.pose, robot.stand_pose)
    terms = {"inputs": written.inputs, "commands": written.commands}
    assert msgspec.structs.replace(biped, **terms).shapes == {"observation": (4 * 8 + 22,)}


def terms(section: Any, name: str = "observation") -> Any:
    return section["inputs"][name]["terms"]


REFUSED: list[tuple[str, Callable[[Any], object], str]] = [
    ("go2_robot_lab", lambda d: terms(d)[0].update(scale=[1.0, 2.0]), "needs 3"),
    ("go2_robot_lab", lambda d: d["joints"].__setitem__(0, "FR_hip"), "FR_hip"),
    ("go2_robot_lab", lambda d: d["joints"].__setitem__(0, d["joints"][1]), "FR_thigh_joint"),
    ("go2_robot_lab", lambda d: d.pop("kp"), "kp"),
    ("go2_robot_lab", lambda d: d.update(rate=0), "rate"),
    ("go2_him", lambda d: d["inputs"]["observation"]["history"].update(length=0), "length"),
    ("biped_gru", lambda d: d["action"].update(scale=[0.25] * 7), "7 numbers"),
    ("biped_gru", lambda d: terms(d)[6].pop("period"), "period"),
    ("go1_walk_these_ways", lambda d: d["commands"]["fixed"].pop("roll"), "roll"),
    ("go1_walk_these_ways", lambda d: d["commands"]["fixed"].update(vx=1.0), "vx"),
    ("follow_discrete", lambda d: d["action"].update(table=[]), "table"),
    ("follow_discrete", lambda d: d["action"]["table"].append([0]), "2 values"),
    ("follow_starformer", lambda d: terms(d, "image").append({"term": "reward"}), "alone"),
    ("follow_starformer", lambda d: terms(d, "action").append({"term": "joint_velocity"}), "joints"),
    ("halfcheetah_fcnet_return", lambda d: terms(d)[1].update(reference=[2.0, 1.0]), "reference"),
    ("aliengo_fcnet", lambda d: d["commands"].pop("gait"), "gait"),
    ("aliengo_fcnet", lambda d: d["commands"]["ranges"].update(vx=[-0.1, 1.0, 1.0]), "envelope"),
]


@pytest.mark.parametrize(("name", "change", "named"), REFUSED)
def test_parts_that_do_not_fit_are_refused_by_name(name, change, named) -> None:
    with pytest.raises(FcnetError, match=named):
        interface_of(name, change)


def test_joints_and_signals_that_are_not_there_are_named() -> None:
    biped = interface_of("biped_gru", lambda d: d["joints"].__setitem__(3, "tail_ankle"))
    with pytest.raises(FcnetError, match="tail_ankle"):
        biped.rows(interface_of("biped_gru").joints)
    moving = interface_of("go2_robot_lab", lambda d: terms(d).append({"term": "linear_velocity"}))
    with pytest.raises(FcnetError, match="linear_velocity"):
        moving.check_signals(ROBOT_SIGNALS, "go2")
    moving.check_signals((*ROBOT_SIGNALS, "linear_velocity"), "go2")
