"""The remote control's file is the only source of what buttons and keys mean; a mistake in it is one sentence."""

from __future__ import annotations

import copy
import functools
import math
import operator
from typing import Any

import pytest
import yaml
from damage import read_damaged

from fcnet_core.errors import FcnetError
from fcnet_core.names import BUTTONS
from fcnet_core.remote import REMOTE_FILE, load_remote_map
from fcnet_teleop.controls import load_remote_control


@pytest.fixture
def facts() -> dict[str, Any]:
    return copy.deepcopy(yaml.safe_load(REMOTE_FILE.read_text()))


def refusal(text: str | None, tmp_path) -> str:
    path = tmp_path / "remote.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(FcnetError) as caught:
        load_remote_control(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_shipped_file_ranks_people_above_programs_and_every_stop_is_on_unitrees_remote() -> None:
    remote = load_remote_control()
    assert [source.name for source in remote.sources] == ["joystick", "keyboard", "monitor", "cmd_vel"]
    assert remote.source("cmd_vel").velocity == "cmd_vel"
    assert remote.source("cmd_vel").pose == "cmd_pose"
    assert frozenset("B") in remote.joystick.emergency_stop == load_remote_map().joystick.emergency_stop
    assert all(chord <= set(BUTTONS) for chord in remote.joystick.emergency_stop)


def test_a_message_of_a_layout_gives_the_same_names_for_every_device() -> None:
    layouts = load_remote_control().layouts
    left_and_forward = {
        "unitree": ([-1.0, 1.0, -1.0, 0.0, 0.0], {8: 1, 12: 1}),
        "xbox": ([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0], {0: 1}),
        "ps": ([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0], {0: 1}),
        "gamepad": ([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], {0: 1, 11: 1}),
    }
    assert set(left_and_forward) == set(layouts)
    for name, (axes, pressed) in left_and_forward.items():
        controls = layouts[name].read(axes, [pressed.get(index, 0) for index in range(16)])
        assert {axis: controls.axes[axis] for axis in ("lx", "ly", "rx")} == {"lx": -1.0, "ly": 1.0, "rx": -1.0}, name
        assert controls.pressed == {"A", "up"}, name
        assert not controls.problem


def test_a_trigger_is_a_button_also_where_it_rests_at_one() -> None:
    xbox = load_remote_control().layouts["xbox"]
    axes = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert xbox.read(axes, [0] * 8).pressed == frozenset()
    axes[5] = -1.0
    assert xbox.read(axes, [0] * 8).pressed == {"R2"}
    assert xbox.read([math.inf] * 8, [0] * 8).pressed == frozenset()


TWICE = REMOTE_FILE.read_text().replace("    walk: [L1, Y]", "    walk: [L1, Y]\n    walk: [L1, R2]")


@pytest.mark.parametrize("text", [None, TWICE, "", "sources", "[1, 2]", "sources: {", "\t"])
def test_a_file_that_is_missing_no_table_or_has_an_entry_twice_is_one_sentence(text, tmp_path) -> None:
    refusal(text, tmp_path)


MISSING = object()


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("surprise", 1, "surprise"),
        ("joystick.requests.jump", ["L1", "A"], "jump"),
        ("keyboard.steps.jump", [["g"], ["h"], 1], "jump"),
        ("joystick.deadman", ["L9"], "L9"),
        ("joystick.deadman", [], "joystick.deadman"),
        ("joystick.velocity.vx", "-yy", "joystick.velocity[...]"),
        ("joystick.dead_zone", 1.5, "joystick.dead_zone"),
        ("joystick.speed.normal", True, "joystick.speed[...]"),
        ("joystick.requests.walk", ["A", "L1"], "A+L1 means stand_up and walk"),
        ("joystick.requests.walk", ["L1", "B"], "B+L1 for walk holds B"),
        ("joystick.requests.walk", ["Y"], "walk"),
        ("joystick.emergency_stop", ["B"], "joystick.emergency_stop"),
        ("joystick.emergency_stop", [], "joystick.emergency_stop"),
        ("joystick.pose.height", [["L1", "up"]], "joystick.pose[...]"),
        ("joystick.level", ["L1", "F1"], "lacks F1"),
        ("layouts.ps.axes", ["lx", "lx"], "lx twice"),
        ("layouts.xbox.buttons", ["A", "A"], "A twice"),
        ("layouts.xbox.pressed.L2", "rz", "layouts[...].pressed"),
        ("layouts.gamepad.frame_id", "unitree_remote", "unitree_remote twice"),
        ("sources", [], "sources"),
        ("sources.1.name", "joystick", "joystick twice"),
        ("sources.1.velocity", "cmd_vel", "cmd_vel twice"),
        ("keyboard.halt", ["w"], "'w' means raise vx and halt"),
        ("keyboard.halt", ["W"], "keyboard.halt"),
        ("keyboard.steps.vx", [["s"], ["w"], -1], "keyboard.steps[...]"),
        *((name, MISSING, name) for name in ("sources", "joystick", "layouts", "keyboard")),
        ("joystick.requests.reset", MISSING, "reset"),
        ("layouts.unitree", MISSING, "unitree"),
        ("keyboard.requests.emergency_stop", MISSING, "emergency_stop"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_it(facts, place, value, named, tmp_path) -> None:
    *sections, name = (int(part) if part.isdigit() else part for part in place.split("."))
    section = functools.reduce(operator.getitem, sections, facts)
    section[name] = value
    if value is MISSING:
        del section[name]
    assert named in refusal(yaml.safe_dump(facts), tmp_path)


def test_a_damaged_file_is_used_or_refused_in_a_sentence() -> None:
    counts = read_damaged(REMOTE_FILE, load_remote_control, files=50)
    assert counts.keys() == {"used", "refused"}
