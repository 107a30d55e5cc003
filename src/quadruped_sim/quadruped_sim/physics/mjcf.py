"""A robot on a terrain as a MuJoCo model, generated from the robot's file, without meshes."""

from __future__ import annotations

import msgspec
import mujoco
import numpy as np

from fcnet_core.robot import JOINT_NAMES, LEG_JOINTS, LEGS, Body, Robot
from quadruped_sim.physics.terrain import Terrain

# Every part touches the ground, which has contype 1. Calves and feet, contype 2, also touch each other, the trunk and
# the thighs of other legs (MuJoCo leaves out a body's parent). More pairs would cost time and rarely meet.
LINK = 'contype="0" conaffinity="1"'
STRUCK = 'contype="0" conaffinity="3"'
STRIKING = 'contype="2" conaffinity="3"'
UNTOUCHABLE = 'contype="0" conaffinity="0"'


class Effects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Effects of a real robot in addition to rigid bodies: the torque-speed curve of the motors, legs that touch each
    other and the trunk, elliptic friction cones with the robot's impratio, the feet's torsional and rolling friction.
    The last is off: models of the field differ in it (MuJoCo Menagerie's have it, MuJoCo Playground's do not).
    """

    torque_speed_curve: bool = True
    self_collision: bool = True
    elliptic_cones: bool = True
    rolling_friction: bool = False


REAL = Effects()


def build_model(
    robot: Robot, terrain: Terrain, timestep: float, effects: Effects = REAL, *, inputs: str = "pos"
) -> mujoco.MjModel:
    """Compile the model of a robot on a terrain, see `robot_xml`."""
    model = mujoco.MjModel.from_xml_string(robot_xml(robot, terrain, timestep, effects, inputs=inputs))
    samples = terrain.height_field()
    if samples is not None:
        model.hfield_data[:] = samples.ravel()
    return model


def robot_xml(robot: Robot, terrain: Terrain, timestep: float, effects: Effects = REAL, *, inputs: str = "pos") -> str:
    """Return MJCF of `robot` on `terrain`, with a time step [s]: a free trunk, 12 hinges in JOINT_NAMES order with
    motors (the robot's gains and torque limits), an IMU (gyroscope, accelerometer) at the trunk, touch sensors at the
    feet, and sensors of what no robot measures: motion of the feet, and torque and velocity of the joints at one
    instant.

    inputs: what a motor is commanded by, in the order of its controls: "pos", "vel" and "ff" (feed-forward torque).
    """
    legs = "".join(_leg(robot, leg, effects) for leg in LEGS)
    motors = "".join(_motor(robot, leg, joint, effects, inputs) for leg in LEGS for joint in LEG_JOINTS)
    touches = "".join(f'<touch name="{leg}_touch" site="{leg}_foot"/>' for leg in LEGS)
    motions = "".join(
        f'<{kind} objtype="site" objname="{leg}_foot"/>'
        for kind in ("framepos", "framelinvel", "frameangvel")
        for leg in LEGS
    )
    torques = "".join(f'<actuatorfrc actuator="{name}"/>' for name in JOINT_NAMES)
    velocities = "".join(f'<jointvel joint="{name}"/>' for name in JOINT_NAMES)
    cone = f'cone="elliptic" impratio="{robot.contact.impratio}"' if effects.elliptic_cones else 'cone="pyramidal"'
    # The sparse Jacobian is faster here by 10 to 25 %, though MuJoCo chooses the dense one below 60 degrees of freedom.
    return f"""<mujoco model="{robot.name}">
<compiler angle="radian" autolimits="true" inertiafromgeom="false"/>
<option timestep="{timestep}" integrator="implicitfast" jacobian="sparse" {cone}/>
<visual><global offwidth="1920" offheight="1080"/><headlight ambient=".35 .35 .35" diffuse=".5 .5 .5"/>
<map znear=".01"/></visual>
<asset><texture type="skybox" builtin="gradient" rgb1=".72 .82 .92" rgb2=".25 .35 .45" width="64" height="384"/>
<texture name="ground" type="2d" builtin="checker" rgb1=".38 .42 .45" rgb2=".47 .51 .54" width="128" height="128"/>
<material name="ground" texture="ground" texrepeat="2 2" texuniform="true"/>{terrain.assets()}</asset>
<default><geom friction="{robot.contact.friction[0]} .005 .0001"/></default>
<worldbody><light pos="0 0 5" dir="-.2 .3 -1" directional="true" castshadow="false"/>{terrain.geoms()}
{_trunk(robot, effects)}{legs}</body></worldbody>
<actuator>{motors}</actuator>
<sensor><gyro name="gyroscope" site="imu"/><accelerometer name="accelerometer" site="imu"/>{touches}
{motions}{torques}{velocities}</sensor>
</mujoco>"""


def _inertial(body: Body, front: float = 1.0, left: float = 1.0) -> str:
    x, y, z = body.com
    inertia = " ".join(f"{value:.8g}" for value in body.inertia)
    return f'<inertial mass="{body.mass}" pos="{x * front} {y * left} {z}" diaginertia="{inertia}"/>'


def _trunk(robot: Robot, effects: Effects) -> str:
    half_x, half_y, half_z = robot.geometry.trunk
    contact = STRUCK if effects.self_collision else LINK
    head = f"{half_x * 0.9} 0 {half_z * 0.5}"
    return f"""<body name="trunk" pos="0 0 {robot.nominal_height}"><freejoint name="root"/>
{_inertial(robot.bodies["trunk"])}
<geom name="trunk" type="box" size="{half_x} {half_y} {half_z}" {contact} rgba=".78 .78 .80 1"/>
<geom type="box" pos="{head}" size=".05 {half_y * 0.8} {half_z * 0.7}" {UNTOUCHABLE} rgba=".1 .45 .75 1"/>
<site name="imu"/><camera name="track" mode="trackcom" pos="0 -1.6 .6" xyaxes="1 0 0 0 .35 1"/>"""


def _leg(robot: Robot, leg: str, effects: Effects) -> str:
    size = robot.geometry
    front = 1.0 if leg.startswith("F") else -1.0
    left = 1.0 if leg.endswith("L") else -1.0
    side = left * size.abduction
    struck, striking = (STRUCK, STRIKING) if effects.self_collision else (LINK, LINK)
    friction = " ".join(map(str, robot.contact.friction))
    rubber = f'condim="6" friction="{friction}"' if effects.rolling_friction else ""
    foot = f"0 0 {-size.calf}"
    return f"""<body name="{leg}_hip" pos="{front * size.hip_x} {left * size.hip_y} 0">
{_inertial(robot.bodies["hip"], front, left)}{_joint(robot, leg, "hip", "1 0 0")}
<geom type="capsule" fromto="0 {side * 0.7} 0 0 {side * 1.1} 0" size=".045" {LINK} rgba=".25 .25 .28 1"/>
<body name="{leg}_thigh" pos="0 {side} 0">
{_inertial(robot.bodies["thigh"], 1.0, left)}{_joint(robot, leg, "thigh", "0 1 0")}
<geom type="capsule" fromto="0 0 0 0 0 {-size.thigh}" size=".022" {struck} rgba=".78 .78 .80 1"/>
<body name="{leg}_calf" pos="0 0 {-size.thigh}">
{_inertial(robot.bodies["calf"], 1.0, left)}{_joint(robot, leg, "calf", "0 1 0")}
<geom type="capsule" fromto="0 0 0 0 0 {-size.calf + 0.03}" size=".013" {striking} rgba=".15 .15 .15 1"/>
<geom name="{leg}_foot" type="sphere" pos="{foot}" size="{size.foot_radius}" {striking} {rubber} rgba=".05 .05 .05 1"/>
<site name="{leg}_foot" pos="{foot}" size="{size.foot_radius * 1.2}" rgba="0 0 0 0"/></body></body></body>"""


def _joint(robot: Robot, leg: str, joint: str, axis: str) -> str:
    low, high = robot.joints[f"{leg}_{joint}_joint"].limits
    facts = robot.motors[robot.joints[f"{leg}_{joint}_joint"].motor]
    return (
        f'<joint name="{leg}_{joint}_joint" axis="{axis}" range="{low} {high}" armature="{facts.armature}" '
        f'damping="{facts.damping}" frictionloss="{facts.friction}"/>'
    )


def _motor(robot: Robot, leg: str, joint: str, effects: Effects, inputs: str) -> str:
    """Return a dcmotor: a current controller gives the torque kp (pos - q) + kd (vel - dq) + ff within the peak torque
    and within what the supply voltage allows: a line from the nominal stall torque at rest to none at the nominal
    speed. The line is the falling part of the torque-speed curve; its stall torque is above the peak. A voltage is
    given as the speed that it reaches without load.
    """
    row = robot.joint_names.index(f"{leg}_{joint}_joint")
    torque, fastest = float(robot.torque_limit[row]), float(robot.velocity_limit[row])
    stall = torque * fastest / (fastest - float(robot.full_torque_speed[row]))
    supply = fastest if effects.torque_speed_curve else 0.0  # 0: without a bound
    return (
        f'<dcmotor name="{leg}_{joint}_joint" joint="{leg}_{joint}_joint" nominal="{fastest} {stall} {fastest}" '
        f'saturation="{torque} 0 0" controller="{robot.kp[row]} 0 {robot.kd[row]} 0 0 {supply}" input="{inputs}"/>'
    )


# Where a compiled motor keeps its facts in MjModel.actuator_gainprm.
RESISTANCE, STIFFNESS, DAMPING = 0, 4, 6


def root_of(robot: Robot) -> str:
    """Return the name of the free body."""
    return robot.model.root if robot.model else "trunk"


def feet_of(robot: Robot) -> tuple[str, ...]:
    """Return the names of the feet in the order of every vector: of the legs, or as the robot's file has them."""
    return tuple(robot.model.feet) if robot.model else LEGS


def stand_height(robot: Robot) -> float:
    """Return the height [m] of the trunk's centre over level ground in the stand pose."""
    thigh, calf = robot.stand_pose[1], robot.stand_pose[1] + robot.stand_pose[2]
    return float(robot.geometry.thigh * np.cos(thigh) + robot.geometry.calf * np.cos(calf)) + robot.geometry.foot_radius


def folded_height(robot: Robot) -> float:
    """Return the height [m] of the trunk's centre on folded legs or on the belly, whichever is higher."""
    thigh, calf = robot.rest_pose[1], robot.rest_pose[1] + robot.rest_pose[2]
    legs = robot.geometry.thigh * np.cos(thigh) + robot.geometry.calf * np.cos(calf) + robot.geometry.foot_radius
    return max(float(legs), robot.geometry.trunk[2])
