"""The demo's status line."""

from __future__ import annotations

import os
import pty

from fcnet_teleop.terminal import StatusDisplay


def test_on_a_terminal_the_line_changes_in_place_although_stdout_is_a_pipe(capsys):
    master, terminal = pty.openpty()
    display = StatusDisplay(os.ttyname(terminal))
    display.show("walking")
    shown = os.read(master, 1000).decode()
    display.print("the table")
    os.close(terminal)
    os.close(master)
    assert "walking" in shown
    assert "\n" not in shown
    assert "the table" in capsys.readouterr().out


def test_elsewhere_it_is_a_plain_line_now_and_then(capsys):
    display = StatusDisplay()
    for step in range(100):
        display.show(f"status {step}")
    assert capsys.readouterr().out == "status 0\n"


def test_a_terminal_that_is_gone_is_no_error(capsys):
    StatusDisplay("/dev/pts/no-such-terminal").show("walking")
    assert capsys.readouterr().out == "walking\n"
