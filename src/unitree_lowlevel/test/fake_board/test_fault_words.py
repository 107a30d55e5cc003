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
    ("line", "sentence"),
    [
        ("lost 0.1", "there is no fault lost"),
        ("loss many", "loss takes"),
        ("loss 2", "loss is 2.0; it takes"),
        ("loss nan", "loss is nan; it takes"),
        ("delay -1", "delay is -1.0; it takes"),
        ("silence perhaps", "silence takes"),
        ("silence", "silence takes"),
        ("tilt 1", "tilt takes"),
        ("temperature 200", "temperature is .*; it takes"),
        ("temperature nan", "temperature is .*; it takes"),
        ("blocked_joint tail", "blocked_joint is tail; it takes"),
        ("press Z", "the remote has no button Z"),
        ("stick up 1", "stick takes"),
        ("stick lx far", "stick lx far is not understood"),
        ("stick lx 2", "stick takes"),
        ("joint_offset nan", "joint_offset is nan; it takes"),
        ("tilt inf 0", r"tilt is \(inf, 0.0\); it takes"),
    ],
)
def test_words_that_are_not_understood_are_refused_with_a_sentence(line, sentence):
    with pytest.raises(ValueError, match=sentence):
        _after(line)
