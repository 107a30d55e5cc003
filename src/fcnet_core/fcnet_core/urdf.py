"""URDF of a robot: generated from the primitives of its robot file, or its own."""

from pathlib import Path
from xml.etree import ElementTree as Xml
from xml.sax.saxutils import quoteattr

from fcnet_core.errors import FcnetError
from fcnet_core.names import BASE_FRAME, IMU_FRAME
from fcnet_core.robot import LEGS, Body, Robot, Vector

COLORS = {"grey": "0.78 0.78 0.80 1", "dark": "0.2 0.2 0.23 1", "blue": "0.1 0.45 0.75 1"}
HIP_RADIUS, THIGH_RADIUS, CALF_RADIUS = 0.045, 0.022, 0.013  # [m] as in simulation
TRUNK_FRAME = "trunk"  # child of BASE_FRAME: KDL requires a root without mass
CENTRE = (0.0, 0.0, 0.0)
ALONG_Y = "1.5707963267948966 0 0"


def robot_urdf(robot: Robot) -> str:
    """Return the URDF of `robot`; for a robot with a URDF of its own that file.

    It has base_link with trunk (its centre, as in odom) and imu_link, four legs of hip, thigh, calf and foot, and the
    further links, with the joints of joint_states. Shapes are boxes, cylinders and spheres. Raises FcnetError if the
    body is a MuJoCo file.
    """
    if robot.model:
        if not robot.model.file.endswith(".urdf"):
            raise FcnetError(f"{robot.name} has no URDF: its body is {robot.model.file}; convert that file")
        return Path(robot.model.file).read_text(encoding="utf-8")
    x, y, z = robot.geometry.trunk
    body = _shape("box", CENTRE, "grey", size=(2 * x, 2 * y, 2 * z))
    head = _shape("box", (0.9 * x, 0.0, 0.5 * z), "blue", collides=False, size=(0.1, 1.6 * y, 1.4 * z))
    parts = [
        *(f'<material name="{name}"><color rgba="{color}"/></material>' for name, color in COLORS.items()),
        _link(BASE_FRAME),
        _link(TRUNK_FRAME, _inertial(robot.body.bodies["trunk"]), body, head),
        _joint("trunk_joint", "fixed", BASE_FRAME, TRUNK_FRAME, CENTRE),
        _link(IMU_FRAME),
        _joint("imu_joint", "fixed", TRUNK_FRAME, IMU_FRAME, CENTRE),
        *(part for leg in LEGS for part in _leg(robot, leg)),
    ]
    for name, link in robot.body.links.items():
        x, y, z = link.size
        parts.append(_link(name, _inertial(link), _shape("box", link.com, "dark", size=(2 * x, 2 * y, 2 * z))))
        parts.append(_hinge(robot, link.joint, link.parent, name, link.place, link.axis))
    root = Xml.fromstring(f"<robot name={quoteattr(robot.name)}>{''.join(parts)}</robot>")
    Xml.indent(root)
    return '<?xml version="1.0"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _leg(robot: Robot, leg: str) -> list[str]:
    size, bodies, joints = robot.geometry, robot.body.bodies, robot.legs[leg]
    front, left = (1.0 if leg.startswith("F") else -1.0), (1.0 if leg.endswith("L") else -1.0)
    hip_place, side = (front * size.hip_x, left * size.hip_y, 0.0), left * size.abduction
    width = (0.4 * size.abduction,)
    hip = _shape("cylinder", (0.0, 0.9 * side, 0.0), "dark", rpy=ALONG_Y, radius=(HIP_RADIUS,), length=width)
    thigh = _shape("cylinder", (0.0, 0.0, -size.thigh / 2), "grey", radius=(THIGH_RADIUS,), length=(size.thigh,))
    calf = _shape("cylinder", (0.0, 0.0, -size.calf / 2), "dark", radius=(CALF_RADIUS,), length=(size.calf,))
    # The calf includes shape and mass of the foot; the foot is only a frame.
    foot = _shape("sphere", (0.0, 0.0, -size.calf), "dark", radius=(size.foot_radius,))
    return [
        _link(f"{leg}_hip", _inertial(bodies["hip"], front, left), hip),
        _link(f"{leg}_thigh", _inertial(bodies["thigh"], 1.0, left), thigh),
        _link(f"{leg}_calf", _inertial(bodies["calf"], 1.0, left), calf, foot),
        _link(f"{leg}_foot"),
        _hinge(robot, joints[0], TRUNK_FRAME, f"{leg}_hip", hip_place, (1, 0, 0)),
        _hinge(robot, joints[1], f"{leg}_hip", f"{leg}_thigh", (0.0, side, 0.0), (0, 1, 0)),
        _hinge(robot, joints[2], f"{leg}_thigh", f"{leg}_calf", (0.0, 0.0, -size.thigh), (0, 1, 0)),
        _joint(f"{leg}_foot_joint", "fixed", f"{leg}_calf", f"{leg}_foot", (0.0, 0.0, -size.calf)),
    ]


def _hinge(robot: Robot, name: str, parent: str, child: str, place: Vector, axis: Vector) -> str:
    motor, (low, high) = robot.motors[robot.joints[name].motor], robot.joints[name].limits
    limit = _element("limit", lower=(low,), upper=(high,), effort=(motor.torque,), velocity=(motor.velocity,))
    dynamics = _element("dynamics", damping=(motor.damping,), friction=(motor.friction,))
    return _joint(name, "revolute", parent, child, place, f"{_element('axis', xyz=axis)}{limit}{dynamics}")


def _joint(name: str, kind: str, parent: str, child: str, place: Vector, content: str = "") -> str:
    links = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{_origin(place)}{links}{content}</joint>'


def _link(name: str, *content: str) -> str:
    return f'<link name="{name}">{"".join(content)}</link>'


def _inertial(body: Body, front: float = 1.0, left: float = 1.0) -> str:
    (x, y, z), (ixx, iyy, izz) = body.com, body.inertia
    inertia = _element("inertia", ixx=(ixx,), iyy=(iyy,), izz=(izz,), ixy=(0,), ixz=(0,), iyz=(0,))
    centre = _element("origin", xyz=(x * front, y * left, z))
    return f"<inertial>{centre}{_element('mass', value=(body.mass,))}{inertia}</inertial>"


def _shape(
    kind: str, place: Vector, color: str, collides: bool = True, rpy: str = "0 0 0", **sizes: tuple[float, ...]
) -> str:
    """Return a shape as a visual and, if it `collides`, as a collision element."""
    shape = f"{_origin(place, rpy)}<geometry>{_element(kind, **sizes)}</geometry>"
    visual = f'<visual>{shape}<material name="{color}"/></visual>'
    return visual + (f"<collision>{shape}</collision>" if collides else "")


def _origin(place: Vector, rpy: str = "0 0 0") -> str:
    return f'<origin xyz="{_text(place)}" rpy="{rpy}"/>'


def _element(name: str, **attributes: tuple[float, ...]) -> str:
    texts = [f'{key}="{_text(numbers)}"' for key, numbers in attributes.items()]
    return f"<{name} {' '.join(texts)}/>"


def _text(numbers: tuple[float, ...]) -> str:
    return " ".join(f"{number:.10g}" for number in numbers)
