"""Names the joint that a person moves by hand: the one check of the joint order that no number can cheat."""

from __future__ import annotations

import time

import numpy as np

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.doctor.recording import PERIOD, motors_off
from unitree_lowlevel.transport import Transport

_MOVED = 0.15  # [rad] since the joint was last named


def watch_joints(transport: Transport, seconds: float) -> list[str]:
    """Print the name of every joint that moves within `seconds`, motors off; returns the names in their order."""
    print(f"Move one joint after the other by hand for {seconds:g} s; its name and its angle appear here.", flush=True)
    command, named, resting = motors_off(), [], None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        transport.send(command)
        time.sleep(PERIOD)
        if (reception := transport.receive()) is None:
            continue
        position = reception.state.position
        resting = position.copy() if resting is None else resting
        joint = int(np.argmax(np.abs(position - resting)))
        if abs(position[joint] - resting[joint]) > _MOVED:
            resting[joint] = position[joint]
            named.append(JOINT_NAMES[joint])
            print(f"  {JOINT_NAMES[joint]:<16} {position[joint]:+.2f} rad", flush=True)
    return named
