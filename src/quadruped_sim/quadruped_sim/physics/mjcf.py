"""A robot on a terrain as a MuJoCo model, generated from the robot's facts, without meshes."""

from __future__ import annotations

import mujoco
import numpy as np

from fcnet_core.robot import JOINT_NAMES, LEG_JOINTS, LEGS, Body, Robot
from quadruped_sim.physics.terrain import Terrain

# Ground has contype 1, the robot conaffinity 1: the robot touches the ground but never itself.
ROBOT = 'contype="0" conaffinity="1"'
UNTOUCHABLE = 'contype="0" conaffinity="0"'


def build_model(robot: Robot, terrain: Terrain, timestep: float) -> mujoco.MjModel:
    """Compile the model of a robot on a terrain, without meshes, with a time step in seconds."""
    model = mujoco.MjModel.from_xml_string(robot_xml(robot, terrain, timestep))
    samples = terrain.height_field()
    if samples is not None:
        model.hfield_data[:] = samples.ravel()
    return model


def robot_xml(robot: Robot, terrain: Terrain, timestep: float) -> str:
    """MJCF of `robot` on `terrain`: a free trunk, 12 hinges in JOINT_NAMES order with position actuators (the robot's
    gains and torque limits), an IMU (gyroscope, accelerometer) at the trunk, touch sensors at the feet, and sensors of
    what no robot measures: motion of the feet, and torque and velocity of the joints at one instant.
    """
    legs = "".join(_leg(robot, leg) for leg in LEGS)
    actuators = "".join(_actuator(robot, leg, joint) for leg in LEGS for joint in LEG_JOINTS)
    touches = "".join(f'<touch name="{leg}_touch" site="{leg}_foot"/>' for leg in LEGS)
    motions = "".join(
        f'<{kind} objtype="site" objname="{leg}_foot"/>'
        for kind in ("framepos", "framelinvel", "frameangvel")
        for leg in LEGS
    )
    torques = "".join(f'<actuatorfrc actuator="{name}"/>' for name in JOINT_NAMES)
    velocities = "".join(f'<jointvel joint="{name}"/>' for name in JOINT_NAMES)
    return f"""<mujoco model="{robot.name}">
<compiler angle="radian" autolimits="true" inertiafromgeom="false"/>
<option timestep="{timestep}" integrator="implicitfast" cone="pyramidal"/>
<visual><global offwidth="1920" offheight="1080"/><headlight ambient=".35 .35 .35" diffuse=".5 .5 .5"/>
<map znear=".01"/></visual>
<asset><texture type="skybox" builtin="gradient" rgb1=".72 .82 .92" rgb2=".25 .35 .45" width="64" height="384"/>
<texture name="ground" type="2d" builtin="checker" rgb1=".38 .42 .45" rgb2=".47 .51 .54" width="128" height="128"/>
<material name="ground" texture="ground" texrepeat="2 2" texuniform="true"/>{terrain.assets()}</asset>
<default><geom friction="1.0 .005 .0001"/></default>
<worldbody><light pos="0 0 5" dir="-.2 .3 -1" directional="true" castshadow="false"/>{terrain.geoms()}
{_trunk(robot)}{legs}</body></worldbody>
<actuator>{actuators}</actuator>
<sensor><gyro name="gyroscope" site="imu"/><accelerometer name="accelerometer" site="imu"/>{touches}
{motions}{torques}{velocities}</sensor>
</mujoco>"""


def _inertial(body: Body, front: float = 1.0, left: float = 1.0) -> str:
    x, y, z = body.com
    inertia = " ".join(f"{value:.8g}" for value in body.inertia)
    return f'<inertial mass="{body.mass}" pos="{x * front} {y * left} {z}" diaginertia="{inertia}"/>'


def _trunk(robot: Robot) -> str:
    half_x, half_y, half_z = robot.geometry.trunk
    head = f"{half_x * 0.9} 0 {half_z * 0.5}"
    return f"""<body name="trunk" pos="0 0 {robot.nominal_height}"><freejoint name="root"/>
{_inertial(robot.bodies["trunk"])}
<geom name="trunk" type="box" size="{half_x} {half_y} {half_z}" {ROBOT} rgba=".78 .78 .80 1"/>
<geom type="box" pos="{head}" size=".05 {half_y * 0.8} {half_z * 0.7}" {UNTOUCHABLE} rgba=".1 .45 .75 1"/>
<site name="imu"/><camera name="track" mode="trackcom" pos="0 -1.6 .6" xyaxes="1 0 0 0 .35 1"/>"""


def _leg(robot: Robot, leg: str) -> str:
    size = robot.geometry
    front = 1.0 if leg.startswith("F") else -1.0
    left = 1.0 if leg.endswith("L") else -1.0
    side = left * size.abduction
    return f"""<body name="{leg}_hip" pos="{front * size.hip_x} {left * size.hip_y} 0">
{_inertial(robot.bodies["hip"], front, left)}{_joint(robot, leg, "hip", "1 0 0")}
<geom type="capsule" fromto="0 {side * 0.7} 0 0 {side * 1.1} 0" size=".045" {ROBOT} rgba=".25 .25 .28 1"/>
<body name="{leg}_thigh" pos="0 {side} 0">
{_inertial(robot.bodies["thigh"], 1.0, left)}{_joint(robot, leg, "thigh", "0 1 0")}
<geom type="capsule" fromto="0 0 0 0 0 {-size.thigh}" size=".022" {ROBOT} rgba=".78 .78 .80 1"/>
<body name="{leg}_calf" pos="0 0 {-size.thigh}">
{_inertial(robot.bodies["calf"], 1.0, left)}{_joint(robot, leg, "calf", "0 1 0")}
<geom type="capsule" fromto="0 0 0 0 0 {-size.calf + 0.03}" size=".013" {ROBOT} rgba=".15 .15 .15 1"/>
<geom name="{leg}_foot" type="sphere" pos="0 0 {-size.calf}" size="{size.foot_radius}" {ROBOT} rgba=".05 .05 .05 1"/>
<site name="{leg}_foot" pos="0 0 {-size.calf}" size="{size.foot_radius * 1.2}" rgba="0 0 0 0"/></body></body></body>"""


def _joint(robot: Robot, leg: str, joint: str, axis: str) -> str:
    facts = robot.joints[joint]
    low, high = facts.left if leg.endswith("L") else facts.right
    return (
        f'<joint name="{leg}_{joint}_joint" axis="{axis}" range="{low} {high}" armature="{facts.armature}" '
        f'damping="{facts.damping}" frictionloss="{facts.friction}"/>'
    )


def _actuator(robot: Robot, leg: str, joint: str) -> str:
    torque, gains = robot.joints[joint].torque, robot.gains
    return (
        f'<position name="{leg}_{joint}_joint" joint="{leg}_{joint}_joint" kp="{gains.kp}" kv="{gains.kd}" '
        f'forcerange="{-torque} {torque}"/>'
    )


def stand_height(robot: Robot) -> float:
    """Height [m] of the trunk's centre over level ground in the stand pose."""
    thigh, calf = robot.stand_pose[1], robot.stand_pose[1] + robot.stand_pose[2]
    return float(robot.geometry.thigh * np.cos(thigh) + robot.geometry.calf * np.cos(calf)) + robot.geometry.foot_radius


def folded_height(robot: Robot) -> float:
    """Height [m] of the trunk's centre when it stands on its folded legs or lies on its belly, whichever is higher."""
    thigh, calf = robot.lie_pose[1], robot.lie_pose[1] + robot.lie_pose[2]
    legs = robot.geometry.thigh * np.cos(thigh) + robot.geometry.calf * np.cos(calf) + robot.geometry.foot_radius
    return max(float(legs), robot.geometry.trunk[2])
