"""What ends an episode before its time: functions of a View that return a truth value for each robot, (B,)."""

import numpy as np

from fcnet_core.arrays import Mask
from quadruped_sim.physics.simulation import FALLEN_HEIGHT, FALLEN_UPRIGHT
from quadruped_sim.tasks.view import View


def fallen(view: View, *, upright: float = FALLEN_UPRIGHT, height: float = FALLEN_HEIGHT) -> Mask:
    """Return the robots whose vertical axis has a cosine below `upright`, or whose trunk's centre is lower over the
    ground than `height` x the nominal height.
    """
    return (view.rotation[:, 2, 2] < upright) | (view.clearance < height * view.robot.nominal_height)


def tilted(view: View, *, roll: float, pitch: float) -> Mask:
    """Return the robots with a larger roll or pitch [rad]."""
    angles = np.abs(view.attitude)
    return (angles[:, 0] > roll) | (angles[:, 1] > pitch)


def height_outside(view: View, *, lowest: float, highest: float) -> Mask:
    """Return the robots whose trunk's centre is lower or higher [m] over the ground."""
    return (view.clearance < lowest) | (view.clearance > highest)


def trunk_contact(view: View) -> Mask:
    """Return the robots that touch the ground with the trunk."""
    return view.simulation.touching("trunk", "floor")
