"""A robot on a terrain as a MuJoCo model: of simple shapes by the robot's file, or with the bodies of a URDF or MuJoCo
file (body_file.py).
"""

import msgspec
import mujoco
import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import SimulationError
from fcnet_core.robot import LEGS, Body, Robot, Vector
from quadruped_sim.physics import body_file
from quadruped_sim.physics.terrain import Flat, Terrain

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
    """Compile the model of a robot on a terrain, see `robot_spec`. Raises SimulationError, see body_file."""
    return compiled(robot, terrain, robot_spec(robot, terrain, timestep, effects, inputs=inputs))


def compiled(robot: Robot, terrain: Terrain, spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile the model of `robot_spec`."""
    model = body_file.compiled(robot, robot.model, spec) if robot.model else spec.compile()
    if terrain.height_field is not None:
        model.hfield_data[:] = terrain.height_field.ravel()
    return model


def robot_spec(
    robot: Robot, terrain: Terrain, timestep: float, effects: Effects = REAL, *, inputs: str = "pos"
) -> mujoco.MjSpec:
    """Return `robot` on `terrain`, with a time step [s]: a free body, a motor for each of its joints (the robot's
    gains and torque limits), an IMU (gyroscope, accelerometer) at the trunk, touch sensors at the feet, and sensors of
    what no robot measures: motion of the feet, and torque and velocity of the joints at one instant.

    inputs: what a motor is commanded by, in the order of its controls: "pos", "vel" and "ff" (feed-forward torque).
    """
    motors = "".join(_motor(robot, row, effects, inputs) for row in range(len(robot.joints)))
    feet, joints = feet_of(robot), robot.joint_names
    sensors = [f'<touch name="{foot}_touch" site="{foot}_foot"/>' for foot in feet]
    for kind in ("framepos", "framelinvel", "frameangvel"):
        sensors += [f'<{kind} objtype="site" objname="{foot}_foot"/>' for foot in feet]
    sensors += [f'<actuatorfrc actuator="{name}"/>' for name in joints]
    sensors += [f'<jointvel joint="{prefix(robot)}{name}"/>' for name in joints]
    given = body_file.read(robot, robot.model) if robot.model else None
    friction, impratio = 1.0, given.option.impratio if given else 1.0
    if robot.primitives:
        friction, impratio = robot.body.contact.friction[0], robot.body.contact.impratio
    cone = f'cone="elliptic" impratio="{impratio}"' if effects.elliptic_cones else 'cone="pyramidal"'
    # The sparse Jacobian is faster here by 10 to 25 %, though MuJoCo chooses the dense one below 60 degrees of freedom.
    spec = mujoco.MjSpec.from_string(f"""<mujoco model="{robot.name}">
<compiler angle="radian" autolimits="true" inertiafromgeom="{"auto" if given else "false"}"/>
<option timestep="{timestep}" integrator="implicitfast" jacobian="sparse" {cone}/>
<visual><global offwidth="1920" offheight="1080"/><headlight ambient=".35 .35 .35" diffuse=".5 .5 .5"/>
<map znear=".01"/></visual>
<asset><texture type="skybox" builtin="gradient" rgb1=".72 .82 .92" rgb2=".25 .35 .45" width="64" height="384"/>
<texture name="ground" type="2d" builtin="checker" rgb1=".38 .42 .45" rgb2=".47 .51 .54" width="128" height="128"/>
<material name="ground" texture="ground" texrepeat="2 2" texuniform="true"/>{terrain.assets()}</asset>
<default><geom friction="{friction} .005 .0001"/></default>
<worldbody><light pos="0 0 5" dir="-.2 .3 -1" directional="true" castshadow="false"/>{terrain.geoms()}
{"" if given else _body(robot, effects)}</worldbody>
<actuator>{motors}</actuator>
<sensor><gyro name="gyroscope" site="imu"/><accelerometer name="accelerometer" site="imu"/>
{"".join(sensors)}</sensor>
</mujoco>""")
    if given and robot.model:
        body_file.attach(robot, robot.model, given, spec)
    return spec


def prefix(robot: Robot) -> str:
    """Return what precedes the names of the robot's bodies and joints in the model."""
    return body_file.PREFIX if robot.model else ""


def root_of(robot: Robot) -> str:
    """Return the name of the free body in the model."""
    return f"{body_file.PREFIX}{robot.model.root}" if robot.model else "trunk"


def feet_of(robot: Robot) -> tuple[str, ...]:
    """Return the names of the feet in the order of every vector: of the legs, or as the robot's file has them."""
    return tuple(robot.model.feet) if robot.model else LEGS


def _inertial(body: Body, front: float = 1.0, left: float = 1.0) -> str:
    x, y, z = body.com
    place = f"{x * front} {y * left} {z}"
    return f'<inertial mass="{body.mass}" pos="{place}" diaginertia="{_vector(body.inertia)}"/>'


def _body(robot: Robot, effects: Effects) -> str:
    half_x, half_y, half_z = robot.geometry.trunk
    contact = STRUCK if effects.self_collision else LINK
    head = f"{half_x * 0.9} 0 {half_z * 0.5}"
    return f"""<body name="trunk" pos="0 0 {robot.nominal_height}"><freejoint name="root"/>
{_inertial(robot.body.bodies["trunk"])}
<geom name="trunk" type="box" size="{half_x} {half_y} {half_z}" {contact} rgba=".78 .78 .80 1"/>
<geom type="box" pos="{head}" size=".05 {half_y * 0.8} {half_z * 0.7}" {UNTOUCHABLE} rgba=".1 .45 .75 1"/>
<site name="imu"/><camera name="track" mode="trackcom" pos="0 -1.6 .6" xyaxes="1 0 0 0 .35 1"/>
{"".join(_leg(robot, leg, effects) for leg in LEGS)}{_links(robot, "trunk")}</body>"""


def _links(robot: Robot, parent: str) -> str:
    """Return the further links of a parent, with theirs."""
    links = robot.primitives.links.items() if robot.primitives else ()
    return "".join(
        f'''<body name="{name}" pos="{_vector(link.place)}">{_inertial(link)}
{_joint(robot, link.joint, _vector(link.axis))}
<geom type="box" pos="{_vector(link.com)}" size="{_vector(link.size)}" {LINK} rgba=".25 .25 .28 1"/>
{_links(robot, name)}</body>'''
        for name, link in links
        if link.parent == parent
    )


def _vector(values: Vector) -> str:
    return " ".join(f"{value:.8g}" for value in values)


def _leg(robot: Robot, leg: str, effects: Effects) -> str:
    size = robot.geometry
    front = 1.0 if leg.startswith("F") else -1.0
    left = 1.0 if leg.endswith("L") else -1.0
    side = left * size.abduction
    struck, striking = (STRUCK, STRIKING) if effects.self_collision else (LINK, LINK)
    friction = " ".join(map(str, robot.body.contact.friction))
    rubber = f'condim="6" friction="{friction}"' if effects.rolling_friction else ""
    foot = f"0 0 {-size.calf}"
    hip, thigh, calf = robot.legs[leg]
    return f"""<body name="{leg}_hip" pos="{front * size.hip_x} {left * size.hip_y} 0">
{_inertial(robot.body.bodies["hip"], front, left)}{_joint(robot, hip, "1 0 0")}
<geom type="capsule" fromto="0 {side * 0.7} 0 0 {side * 1.1} 0" size=".045" {LINK} rgba=".25 .25 .28 1"/>
<body name="{leg}_thigh" pos="0 {side} 0">
{_inertial(robot.body.bodies["thigh"], 1.0, left)}{_joint(robot, thigh, "0 1 0")}
<geom type="capsule" fromto="0 0 0 0 0 {-size.thigh}" size=".022" {struck} rgba=".78 .78 .80 1"/>
<body name="{leg}_calf" pos="0 0 {-size.thigh}">
{_inertial(robot.body.bodies["calf"], 1.0, left)}{_joint(robot, calf, "0 1 0")}
<geom type="capsule" fromto="0 0 0 0 0 {-size.calf + 0.03}" size=".013" {striking} rgba=".15 .15 .15 1"/>
<geom name="{leg}_foot" type="sphere" pos="{foot}" size="{size.foot_radius}" {striking} {rubber} rgba=".05 .05 .05 1"/>
<site name="{leg}_foot" pos="{foot}" size="{size.foot_radius * 1.2}" rgba="0 0 0 0"/></body></body></body>"""


def _joint(robot: Robot, name: str, axis: str) -> str:
    (low, high), facts = robot.joints[name].limits, robot.motors[robot.joints[name].motor]
    return (
        f'<joint name="{name}" axis="{axis}" range="{low} {high}" armature="{facts.armature}" '
        f'damping="{facts.damping}" frictionloss="{facts.friction}"/>'
    )


def _motor(robot: Robot, row: int, effects: Effects, inputs: str) -> str:
    """Return a dcmotor: a current controller gives the torque kp (pos - q) + kd (vel - dq) + ff within the peak torque
    and within what the supply voltage allows: a line from the nominal stall torque at rest to none at the nominal
    speed. The line is the falling part of the torque-speed curve; its stall torque is above the peak. A voltage is
    given as the speed that it reaches without load.
    """
    name = robot.joint_names[row]
    torque, fastest = float(robot.torque_limit[row]), float(robot.velocity_limit[row])
    stall = torque * fastest / (fastest - float(robot.full_torque_speed[row]))
    supply = fastest if effects.torque_speed_curve else 0.0  # 0: without a bound
    return (
        f'<dcmotor name="{name}" joint="{prefix(robot)}{name}" nominal="{fastest} {stall} {fastest}" '
        f'saturation="{torque} 0 0" controller="{robot.kp[row]} 0 {robot.kd[row]} 0 0 {supply}" input="{inputs}"/>'
    )


# Where a compiled motor keeps its facts in MjModel.actuator_gainprm.
RESISTANCE, STIFFNESS, DAMPING = 0, 4, 6


def stand_height(robot: Robot) -> float:
    """Return the height [m] of the trunk's centre over level ground in the stand pose."""
    return _height(robot, robot.stand_pose)


def folded_height(robot: Robot) -> float:
    """Return the height [m] of the trunk's centre on folded legs or on the belly, whichever is higher.

    Raises SimulationError for a robot without a lying pose.
    """
    if robot.lie_pose is None:
        raise SimulationError(
            f"{robot.name} has no lying pose; start it standing, or give its joints `lie` in its file"
        )
    return max(_height(robot, robot.lie_pose), robot.geometry.trunk[2] if robot.primitives else 0.0)


def footprint(robot: Robot) -> tuple[float, float]:
    """Return how far the feet of a standing robot are from its middle, at most, along x and y [m]."""
    if not robot.primitives:
        return robot.nominal_height / 2, robot.nominal_height / 2
    return robot.geometry.hip_x, robot.geometry.hip_y + robot.geometry.abduction


FAR = 100.0  # [m] above the ground


def _height(robot: Robot, joints: Array) -> float:
    """Return the height [m] of the free body over the lowest foot or, of a file's body, over the lowest of the shapes
    that touch the ground.
    """
    if robot.primitives:
        size, (_, thigh, calf) = robot.geometry, joints[robot.leg_rows].T
        return float((size.thigh * np.cos(thigh) + size.calf * np.cos(thigh + calf)).max()) + size.foot_radius
    model = build_model(robot, Flat(), 0.004)
    data = mujoco.MjData(model)
    for name, angle in zip(robot.joint_names, joints, strict=True):
        data.joint(prefix(robot) + name).qpos[:] = angle
    root = data.body(root_of(robot))
    data.joint("root").qpos[2] = FAR / 2
    mujoco.mj_kinematics(model, data)
    touching = np.flatnonzero((model.geom_bodyid > 0) & ((model.geom_contype | model.geom_conaffinity) > 0)).tolist()
    floor = model.geom("floor").id
    return float(root.xpos[2]) - min(mujoco.mj_geomDistance(model, data, floor, geom, FAR, None) for geom in touching)
