"""Robots with other joints than a quadruped's 12: bodies from a URDF or MuJoCo file, checked by name, and a tail."""

import mujoco
import numpy as np
import pytest
from msgspec.structs import replace

from fcnet_core.errors import FcnetError
from fcnet_core.robot import Robot, load_robot
from quadruped_sim.physics.live_robot import LiveRobot, MotorDrivenRobot
from quadruped_sim.physics.mjcf import build_model, stand_height
from quadruped_sim.physics.placement import Place
from quadruped_sim.physics.randomization import TYPICAL
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import Flat, Rough, SideSlope

# As people have them: degrees, default classes, meshes for display, motors, a keyframe and a floor of its own.
HOPPER = """<mujoco><compiler angle="degree" meshdir="assets"/>
<default><default class="seen"><geom contype="0" conaffinity="0"/></default></default>
<asset><mesh name="shell" file="shell.stl"/></asset>
<worldbody><geom name="floor" type="plane" size="9 9 .1"/><body name="base" pos="0 0 3"><freejoint/>
<inertial pos="0 0 0" mass="5" diaginertia=".1 .1 .1"/><site name="imu"/>
<geom class="seen" type="mesh" mesh="shell"/><geom type="box" size=".3 .3 .05"/>
<body name="shin" pos="0 0 -.05"><joint name="knee" axis="0 1 0" range="-60 60" damping="9"/>
<geom type="capsule" fromto="0 0 0 0 0 -.3" size=".05"/><body name="toe" pos="0 0 -.3"><joint name="free"/>
<geom type="sphere" size=".06" mass=".1"/></body></body></body></worldbody>
<actuator><motor name="knee" joint="knee"/></actuator><sensor><jointpos joint="knee"/></sensor>
<keyframe><key qpos="0 0 3 1 0 0 0 0 0"/></keyframe></mujoco>"""
ROBOT = """
name: hopper
motors: {one: {torque: 30, velocity: 20, armature: 0.01, damping: 0.5, friction: 0.2}}
joints: {knee: {motor: one, limits: [-1, 1], stand: 0.2}}
gains: {kp: 50, kd: 1, damping: 2}
nominal_height: 0.4
model: {file: hopper.xml, root: base, feet: {only: toe}}
safety: {max_target_rate: 20, max_tilt: 0.8, max_joint_error: 0.8, joint_error_time: 0.15}
"""


@pytest.fixture
def hopper(tmp_path):
    """Writes robot file and body file with replacements in their text; returns the robot."""

    def make(changes: dict[str, str] | None = None) -> Robot:
        yaml, xml = ROBOT, HOPPER
        for old, new in (changes or {}).items():
            yaml, xml = yaml.replace(old, new), xml.replace(old, new)
        (tmp_path / "hopper.xml").write_text(xml)
        (tmp_path / "robot.yaml").write_text(yaml)
        return load_robot(tmp_path / "robot.yaml")

    return make


def test_a_body_file_gives_bodies_and_the_robot_file_motors_and_names(hopper):
    robot = hopper()
    model = build_model(robot, Flat(), 0.004)
    assert model.nu == 1 and model.nkey == 0 and model.nmesh == 0
    knee = model.joint("robot/knee")
    np.testing.assert_allclose(knee.range, np.deg2rad([-60, 60]))
    assert (knee.armature, knee.damping, knee.frictionloss) == ([0.01], [0.5], [0.2])
    np.testing.assert_allclose(model.actuator_forcerange, [[-30.0, 30.0]])
    assert stand_height(robot) == pytest.approx(0.05 + 0.3 * np.cos(0.2) + 0.06)
    data = mujoco.MjData(model)
    data.joint("robot/knee").qpos[:], data.joint("robot/knee").qvel[:], data.ctrl[:] = 0.3, 1.0, 0.5
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.actuator_force, 50.0 * 0.2 - 1.0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hopper.xml": "none.xml"}, "none.xml"),
        ({"</mujoco>": ""}, "hopper.xml.*cannot be read"),
        ({"root: base": "root: trunk"}, "no body trunk; it has base"),
        ({"only: toe": "only: heel"}, "no body heel"),
        ({"root: base": "root: base, imu: head"}, "no body head"),
        ({'name="knee" axis': 'name="ankle" axis', 'joint="knee"/>': 'joint="ankle"/>'}, "no hinge knee.*ankle"),
        ({'axis="0 1 0" range="-60 60"': 'type="slide"'}, "no hinge knee"),
        ({"[-1, 1]": "[-1, 1.1]"}, "limits -1 to 1.1 rad of knee are beyond -1.047"),
        ({'class="seen" type="mesh"': 'type="mesh"'}, "collision mesh shell.stl of base is missing"),
        ({'class="seen" type="mesh"': 'type="mesh"', "shell.stl": "package://hopper/shell.stl"}, "package.*relative"),
        ({'<site name="imu"/>': '<site name="imu"/><body name="loose"><joint/></body>'}, "cannot be simulated"),
    ],
)  # fmt: skip
def test_a_body_file_that_does_not_fit_is_one_sentence(hopper, changes, named):
    with pytest.raises(FcnetError, match=f"(?s){named}"):
        build_model(hopper(changes), Flat(), 0.004)


def test_joints_come_in_the_order_of_the_robot_file(tailed):
    simulation = Simulation(tailed, 2, Flat())
    targets = np.tile(tailed.stand_pose, (2, 1))
    targets[:, tailed.joint_names.index("tail_joint")] = 0.9
    for _ in range(50):
        samples = simulation.step(targets, record=True)
    state = simulation.state()
    assert state.contact.all() and not simulation.fallen(state).any()
    np.testing.assert_allclose(state.joint_position, targets, atol=0.4)
    assert state.joint_position[0, tailed.joint_names.index("tail_joint")] == pytest.approx(0.9, abs=0.1)
    assert samples["torque"].shape == (5, 2, 13)
    np.testing.assert_allclose(samples["foot_force"][-1].sum(1), 9.81 * tailed.mass, rtol=0.1)
    np.testing.assert_allclose(simulation.mass, tailed.mass)


def test_robots_of_a_file_are_drawn_pushed_and_seen_as_all_others(biped):
    simulation = Simulation(biped, 3, Rough(0.02), randomization=replace(TYPICAL, dropout=(0.0, 0.0)))
    np.testing.assert_allclose(simulation.mass, 21.6 + simulation.drawn["payload"])
    simulation.step(np.tile(biped.stand_pose, (3, 1)))
    seen, true = simulation.signals(), simulation.signals(ideal=True)
    np.testing.assert_allclose(seen["joint_position"] - true["joint_position"], simulation.drawn["joint_zero"])
    before = simulation.state().linear_velocity
    simulation.push(np.array([[0.5, 0.0, 0.0]] * 3))
    np.testing.assert_allclose(simulation.state().linear_velocity - before, [[0.5, 0.0, 0.0]] * 3)
    everything = simulation.signals(ideal=True, names=("foot_contact", "base_height", "com", "delay"))
    assert everything["foot_contact"].shape == (3, 2) and everything["base_height"].shape == (3, 1)
    assert everything["com"].shape == (3, 3) and everything["delay"].shape == (3, 1)


@pytest.mark.parametrize("start", ["lying", "on_back"])
def test_a_robot_without_a_lying_pose_starts_standing_only(biped, start):
    with pytest.raises(FcnetError, match="biped has no lying pose"):
        LiveRobot(biped, Flat(), start=start)
    live = LiveRobot(biped, SideSlope(5.0), start="standing", place=Place(1.0, 0.0, 1.0), noise=0.0)
    live.step(biped.stand_pose)
    np.testing.assert_allclose(live.read_sensors().position, biped.stand_pose, atol=0.1)
    assert live.ground_truth().position[2] == pytest.approx(biped.nominal_height, abs=0.03)


def test_one_robot_of_any_joints_lies_and_has_motors(tailed):
    driven = MotorDrivenRobot(tailed, Flat(), noise=0.0)
    np.testing.assert_allclose(driven.read_sensors().position, tailed.lie_pose, atol=0.5)
    torque = 0.5 * np.array([name == "tail_joint" for name in tailed.joint_names])
    driven.block(0)
    driven.drive(np.zeros(13), np.zeros(13), torque, np.zeros(13), np.zeros(13))
    driven.advance(1)
    np.testing.assert_allclose(driven.read_sensors().torque, torque, atol=1e-9)
    assert driven.foot_force().shape == (4,)
