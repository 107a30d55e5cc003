"""The remote control's file is the only source of what buttons and keys mean; a mistake in it is one sentence."""

import functools
import itertools
import math
import operator
import re

import pytest
import yaml
from damage import read_damaged

from fcnet_core.errors import FcnetError
from fcnet_core.names import BUTTONS
from fcnet_core.remote import REMOTE_FILE, load_remote_map
from fcnet_teleop.controls import load_remote_control


def refusal(text: str, tmp_path) -> str:
    path = tmp_path / "remote.yaml"
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


# Messages of devices with the cross (A), the left shoulder (L1) and "up" pressed, the left stick forward and to the
# left, the right one to the left: indices of buttons, and axes. From SDL_gamecontrollerdb.h and joy's README.
DEVICES = {
    "unitree": (16, {8, 1, 12}, [-1.0, 1.0, -1.0, 0.0, 0.0]),
    "xbox": (11, {0, 4}, [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]),
    "xbox with a share button": (12, {0, 4}, [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]),
    "xbox whose triggers have not been moved": (11, {0, 4}, [1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]),
    "ps": (13, {0, 4}, [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]),
    "ps_no_dpad": (13, {0, 4}, [1.0, 1.0, 1.0, 1.0, 0.0, 1.0]),
    "f710": (12, {1, 4}, [1.0, 1.0, 1.0, 0.0, 0.0, 1.0]),
    "switch_pro": (14, {0, 5}, [1.0, 1.0, 1.0, 0.0, 0.0, 1.0]),
    "gamepad": (21, {0, 9, 11}, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
    "gamepad, DualShock 4 read by SDL": (16, {0, 9, 11}, [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]),
    "gamepad, DualSense read by SDL": (17, {0, 9, 11}, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("device", DEVICES)
def test_a_message_of_a_layout_gives_the_same_names_for_every_device(device) -> None:
    remote, name = load_remote_control(), device.replace(",", " ").split()[0]
    count, pressed, axes = DEVICES[device]
    buttons = [int(index in pressed) for index in range(count)]
    controls = remote.layouts[name].read(axes, buttons)
    assert {axis: controls.axes[axis] for axis in ("lx", "ly", "rx")} == {"lx": -1.0, "ly": 1.0, "rx": -1.0}
    assert controls.pressed == {"A", "L1"} | ({"up"} if name != "ps_no_dpad" else set())
    assert not remote.reason_to_doubt(name, axes, buttons)
    for wrong in (axes[1:], [*axes, 0.0]):
        assert remote.reason_to_doubt(name, wrong, buttons)
    assert all(remote.reason_to_doubt(other, axes, buttons) for other in remote.layouts if other != name)


@pytest.mark.parametrize("name", load_remote_control().layouts)
def test_the_check_names_every_button_and_axis_of_a_layout_with_its_functions(name) -> None:
    remote = load_remote_control()
    layout, named = remote.layouts[name], set()
    axes, buttons = [0.0] * len(layout.axes), [0] * len(layout.buttons)
    assert remote.held(name, axes, buttons) == set()
    for kind, values, ends in (("axis", axes, (1, -1)), ("button", buttons, (1,))):
        for index, value in itertools.product(range(len(values)), ends):
            values[index] = value
            for line in remote.held(name, axes, buttons):
                place, control, functions = re.fullmatch(r"(\w+ \d+) is (\w+)[ +\-\d]*: (.+)", line).groups()
                assert place == f"{kind} {index}"
                named.add(control)
                has_function = any(control in chord for _, chord in remote.joystick.meanings)
                assert has_function == (functions != "no function" and control not in ("lx", "ly", "rx"))
            values[index] = 0
    assert named >= {"L1", "B", "A", "X", "Y", "lx", "ly", "rx", "R1", "R2", "L2", "start", "select"}
    assert remote.held(name, axes, [0] * 40 + [1]) == {"button 40 is unused: no function"}


def test_a_trigger_is_a_button_also_where_it_rests_at_one() -> None:
    xbox = load_remote_control().layouts["xbox"]
    axes = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert xbox.read(axes, [0] * 8).pressed == frozenset()
    axes[5] = -1.0
    assert xbox.read(axes, [0] * 8).pressed == {"R2"}
    assert xbox.read([math.inf] * 8, [0] * 8).pressed == frozenset()


MISSING = object()


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("joystick.requests.jump", ["L1", "A"], "jump"),
        ("keyboard.steps.jump", [["g"], ["h"], 1], "jump"),
        ("joystick.deadman", ["L9"], "L9"),
        ("joystick.deadman", [], "joystick.deadman"),
        ("joystick.velocity.vx", "-yy", "joystick.velocity[...]"),
        ("joystick.dead_zone", 1.5, "joystick.dead_zone"),
        ("joystick.requests.walk", ["A", "L1"], "A+L1 means stand_up and walk"),
        ("joystick.requests.walk", ["L1", "B"], "B+L1 for walk holds B"),
        ("joystick.requests.walk", ["Y"], "walk"),
        ("joystick.emergency_stop", ["B"], "joystick.emergency_stop"),
        ("joystick.emergency_stop", [], "joystick.emergency_stop"),
        ("joystick.pose.height", [["L1", "up"]], "joystick.pose[...]"),
        ("joystick.level", ["L1", "F1"], "lacks F1"),
        ("layouts.ps.axes", ["lx", "lx"], "lx twice"),
        ("layouts.xbox.buttons", ["A", "A"], "A twice"),
        ("layouts.xbox.more_buttons", [-1], "layouts[...].more_buttons"),
        ("layouts.xbox.more_buttons", [], "layouts[...].more_buttons"),
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
def test_a_mistake_is_one_sentence_that_names_it(place, value, named, tmp_path) -> None:
    facts = yaml.safe_load(REMOTE_FILE.read_text())
    *sections, name = (int(part) if part.isdigit() else part for part in place.split("."))
    section = functools.reduce(operator.getitem, sections, facts)
    section[name] = value
    if value is MISSING:
        del section[name]
    assert named in refusal(yaml.safe_dump(facts), tmp_path)


def test_a_damaged_file_is_used_or_refused_in_a_sentence() -> None:
    counts = read_damaged(REMOTE_FILE, load_remote_control, files=50)
    assert counts.keys() == {"used", "refused"}
