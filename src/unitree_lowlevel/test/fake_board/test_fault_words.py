"""Faults as they are typed."""

from __future__ import annotations

import pytest

from unitree_lowlevel.codec import RemoteState
from unitree_lowlevel.fake_board.faults import BoardFaults, changed_faults, fault_fields


def _after(*lines: str) -> BoardFaults:
    faults = BoardFaults()
    for line in lines:
        faults = changed_faults(faults, line.split())
    return faults


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("loss 0.1", BoardFaults(loss=0.1)),
        ("silence on", BoardFaults(silence=True)),
        ("tilt 1.2 -0.3", BoardFaults(tilt=(1.2, -0.3))),
        ("temperature 90", BoardFaults(temperature=90.0)),
        ("blocked_joint RR_calf_joint", BoardFaults(blocked_joint="RR_calf_joint")),
        ("dead_motor FL_hip_joint", BoardFaults(dead_motor="FL_hip_joint")),
        ("press L2 B", BoardFaults(remote=RemoteState(frozenset({"L2", "B"})))),
        ("stick lx 0.5", BoardFaults(remote=RemoteState(lx=0.5))),
    ],
)
def test_a_line_switches_a_fault_on(line, faults):
    assert _after(line) == faults


@pytest.mark.parametrize("fault", fault_fields(), ids=lambda fault: fault.name)
def test_every_fault_can_be_switched_off(fault):
    assert _after(f"{fault.name} off") == BoardFaults()


def test_buttons_are_let_go_one_by_one_or_all_at_once():
    assert _after("press L2 B", "release B").remote.buttons == {"L2"}
    assert _after("press L2 B", "release").remote.buttons == set()


def test_clear_leaves_only_the_remote():
    assert _after("loss 0.1", "silence on", "press A", "clear") == _after("press A")


@pytest.mark.parametrize(
    "line",
    [
        *(
            "lost 0.1",
            "loss many",
            "loss 2",
            "loss nan",
            "delay -1",
            "silence perhaps",
            "silence",
            "tilt 1",
            "tilt inf 0",
        ),
        *("temperature 200", "temperature nan", "blocked_joint tail", "joint_offset nan"),
        *("press Z", "stick up 1", "stick lx far", "stick lx 2"),
    ],
)
def test_wrong_words_are_refused_by_name(line):
    with pytest.raises(ValueError, match=line.split()[-1 if line.startswith("press") else 0]):
        _after(line)
