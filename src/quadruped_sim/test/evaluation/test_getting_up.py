"""Robots stand up and lie down on every terrain and get up after falls, with the code that the controller runs; in
batches some begin an episode lying, and those that stand already wait for them.
"""

import numpy as np
import pytest

from fcnet_core.legs.recovery import lying_on
from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.names import Mode
from fcnet_core.robot import load_robot
from fcnet_core.rotation import projected_gravity, roll_pitch_yaw
from quadruped_sim.controlled_robot import ControlledRobot
from quadruped_sim.evaluation.getting_up import FALLS, GROUNDS, begin_lying, get_up, recover, stand_up
from quadruped_sim.physics.randomization import NOMINAL
from quadruped_sim.physics.terrain import START, Slope, Stairs
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.setpoints import SetpointRanges

LYING = np.array([True, True, False, True])  # robots of a batch
REPEATS = 3  # of each kind of fall


@pytest.fixture
def seen(monkeypatch):
    """The largest figures after all control periods but those of walking; sag: the last error of a standing robot."""
    found, cycle, turning = {}, ControlledRobot.cycle, np.zeros(2)

    def observed(controlled, *setpoint):
        controller, live, robot = controlled.controller, controlled.live, controlled.live.robot
        before = controller.runner.limiter.last
        cycle(controlled, *setpoint)
        if controller.mode is Mode.WALKING or controller.mode is Mode.FAULT:
            return
        joints, orientation, torque = live.joints, live.orientation, live.data.actuator_force
        velocity = live.data.qvel[live.at.rates]
        turning[:] += live.period / robot.safety.fall_rate_time * (live.velocity[3:5] - turning)
        figures = {
            "torque": np.abs(torque / robot.torque_limit).max(),
            "speed": np.abs(velocity / robot.velocity_limit).max(),
            "power": np.abs(torque * velocity).sum(),
            "turning": np.hypot(*turning),
            "turned over": lying_on(projected_gravity(orientation)) != "belly",
        }
        if controller.mode is Mode.STANDING:
            found["sag"] = controller.posture.stand_errors(joints).max()
        if controller.posture.commands_joints:
            target = controller.runner.limiter.last
            figures["target_rate"] = np.abs(target - before).max() / live.period
            figures["joint_error"] = np.abs(target - joints).max()
        found.update({name: max(found.get(name, 0.0), float(value)) for name, value in figures.items()})

    monkeypatch.setattr(ControlledRobot, "cycle", observed)
    return found


@pytest.mark.parametrize(
    ("ground", "number"),  # the first four numbers head along the axes
    [
        *(("flat", 0), ("rough", 5), ("slope_up", 0), ("slope_across_15", 5), ("slope_down_15", 0), ("stairs_up", 5)),
        *(("stairs_down", 0), ("obstacles", 5)),
    ],
)
def test_a_robot_stands_up_holds_and_lies_down(robot, ground, number, seen):
    assert not stand_up(robot, ground, 7, number)
    assert 0.0 < seen["sag"] < (0.05 if ground in ("flat", "slope_up", "slope_across_15", "slope_down_15") else 0.2)
    assert 0.0 < seen["torque"] < robot.safety.max_torque
    assert 0.0 < seen["target_rate"] < 0.2 * robot.safety.max_target_rate
    assert 0.0 < seen["joint_error"] < robot.safety.max_joint_error


def test_a_fallen_robot_rights_itself_in_time_and_within_its_limits_then_walks(robot, seen):
    model = load_model(shipped_model(robot.name))
    failures = [recover(robot, *fall, 7, number, model) for fall in FALLS for number in range(REPEATS)]
    # One in eight may end with a leg across another, which it touches; the scenario counts them in hundreds.
    assert sum(not failure for failure in failures) >= 7 / 8 * len(failures)
    assert seen["turned over"]
    assert 0.0 < seen["power"] < robot.safety.max_power
    assert 0.0 < seen["speed"] < 1.0
    assert 0.0 < seen["turning"] < robot.recovery.max_rate


@pytest.mark.parametrize("kind", ["stand_up", "recovery"])
def test_equal_episodes_have_equal_motions_and_terrains_and_falls_come_in_turn(kind, seen):
    a1 = load_robot("a1")
    get_up(a1, kind, 1, 14)
    power = seen.pop("power")
    stand_up(a1, list(GROUNDS)[2], 1, 1) if kind == "stand_up" else recover(a1, *FALLS[2], 1, 3)
    assert seen["power"] == power


def test_a_robot_that_cannot_carry_itself_has_failed(monkeypatch):
    monkeypatch.setattr("quadruped_sim.evaluation.getting_up.FRICTION", (0.01, 0.01))
    assert stand_up(load_robot("a1"), "slope_up_15", 0, 0)


def _begin(robot, terrain):
    rollout = Rollout(robot, len(LYING), terrain, SetpointRanges(), NOMINAL, seed=5)
    before = rollout.simulation.state()
    failed = begin_lying(rollout, LYING, np.random.default_rng(0))
    return rollout.simulation, before, failed


def test_on_a_slope_they_lie_on_the_incline_at_any_heading_and_stand_up_there(aliengo):
    simulation, before, failed = _begin(aliengo, Slope(-12.0))
    assert not failed.any() and simulation.active.all()
    after = simulation.state()
    assert (after.position[LYING, 0] > START + 4.0).all()
    ground = simulation.terrain.height(after.position[:, 0], after.position[:, 1])
    assert (after.position[:, 2] - ground > 0.8 * aliengo.nominal_height).all()
    assert np.ptp(roll_pitch_yaw(after.orientation)[LYING, 2]) > 0.5
    np.testing.assert_array_equal(after.position[~LYING], before.position[~LYING])


def test_before_stairs_they_lie_at_the_start_and_head_ahead(robot):
    simulation, _, failed = _begin(robot, Stairs(0.1))
    assert not failed.any()
    state = simulation.state()
    np.testing.assert_allclose(state.position[:, :2], 0.0, atol=0.15)
    np.testing.assert_allclose(roll_pitch_yaw(state.orientation)[:, 2], 0.0, atol=0.2)


def test_without_any_that_lies_nothing_moves(aliengo):
    rollout = Rollout(aliengo, 2, Stairs(0.1), SetpointRanges(), NOMINAL, seed=5)
    assert not begin_lying(rollout, np.zeros(2, dtype=bool), np.random.default_rng(0)).any()
    assert rollout.simulation.time == pytest.approx([0.0, 0.0])
