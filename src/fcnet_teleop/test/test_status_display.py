"""The status line of the demo and of teleop_keyboard."""

from __future__ import annotations

import os
import pty
import sys

from fcnet_teleop.terminal import StatusDisplay


def test_on_a_terminal_the_line_changes_in_place(monkeypatch):
    master, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        StatusDisplay().show("walking")
        shown = os.read(master, 1000).decode()
    os.close(master)
    assert "walking" in shown
    assert "\n" not in shown


def test_elsewhere_it_is_a_plain_line_now_and_then(capsys):
    display = StatusDisplay()
    for step in range(100):
        display.show(f"status {step}")
    assert capsys.readouterr().out == "status 0\n"
