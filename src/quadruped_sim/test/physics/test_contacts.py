"""Legs that touch each other and the trunk, and never where a robot's work puts them."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from msgspec.structs import replace

from fcnet_core.control.command import CommandShaper
from quadruped_sim.physics.mjcf import REAL, build_model
from quadruped_sim.physics.randomization import KIND, SIMPLE
from quadruped_sim.physics.simulation import CONTROL_PERIOD, Simulation
from quadruped_sim.physics.terrain import Flat
from quadruped_sim.trot_expert import FIELD, TrotExpert


def _touching(model, data) -> set[frozenset[str]]:
    """Pairs of bodies of the robot that touch."""
    bodies = [model.geom_bodyid[contact.geom] for contact in data.contact]
    return {frozenset(model.body(body).name for body in pair) for pair in bodies if 0 not in pair}


def _in_the_air(robot, joints, effects=REAL):
    model = build_model(robot, Flat(), 0.004, effects)
    data = mujoco.MjData(model)
    data.qpos[2] = 10.0
    data.qpos[7:] = joints
    mujoco.mj_forward(model, data)
    return model, data


def test_legs_that_cross_touch_and_are_pushed_apart(robot):
    crossed = robot.stand_pose.copy()
    while not _touching(*_in_the_air(robot, crossed)):
        crossed[[0, 3]] += 0.02, -0.02  # both fore legs inwards
        assert (crossed <= robot.upper).all()
    crossed[[0, 3]] += 0.02, -0.02
    model, data = _in_the_air(robot, crossed)
    assert _touching(model, data) == {frozenset({"FR_calf", "FL_calf"})}
    assert not _touching(*_in_the_air(robot, crossed, SIMPLE))
    model.opt.gravity[:], data.ctrl[:] = 0.0, crossed
    before = min(contact.dist for contact in data.contact)
    mujoco.mj_step(model, data, 100)
    assert min((contact.dist for contact in data.contact), default=0.0) > 0.5 * before


@pytest.mark.parametrize("pose", ["stand_pose", "lie_pose"])
def test_a_robot_that_stands_or_lies_does_not_touch_itself(robot, pose):
    assert not _touching(*_in_the_air(robot, getattr(robot, pose)))


@pytest.mark.parametrize(
    "commands",
    [
        {"vx": 0.8, "vy": 0.2, "yaw_rate": 0.8},
        {"vx": 1.5},
        {"vx": 0.4, "height": -0.1},
        {"vx": 0.3, "width": -0.3},
        {"roll": 0.25, "pitch": -0.18, "height": -0.06},
    ],
    ids=str,
)
def test_a_robot_that_walks_does_not_touch_itself(robot, commands):
    drawn = replace(KIND, effects=replace(SIMPLE, self_collision=True))
    simulation = Simulation(robot, 1, Flat(), randomization=drawn)
    expert, shaper = TrotExpert(robot, 1), CommandShaper(robot.commands, robot.gait, CONTROL_PERIOD)
    wanted = np.zeros((1, len(FIELD)))
    for name, value in commands.items():
        wanted[0, FIELD[name]] = value
    for _ in range(150):
        shaper.step(wanted)
        simulation.step(expert.act(simulation.state(), shaper))
        assert not _touching(simulation.models[0], simulation.data[0])
