"""fcnet urdf: a robot as URDF, for RViz, Foxglove and whatever else reads it, written from the robot's facts."""

from __future__ import annotations

import argparse
from pathlib import Path
from xml.etree import ElementTree as Xml

from fcnet_core.files import write_whole
from fcnet_core.robot import LEGS, Body, Robot, load_robot

SUMMARY = "write a robot as URDF, for RViz and Foxglove, from config/robots"
EPILOG = """
example:
  fcnet urdf aliengo --output aliengo.urdf
"""
COLORS = {"grey": "0.78 0.78 0.80 1", "dark": "0.2 0.2 0.23 1", "blue": "0.1 0.45 0.75 1"}
HIP_RADIUS, THIGH_RADIUS, CALF_RADIUS = 0.045, 0.022, 0.013  # [m] as in simulation
BASE_FRAME, TRUNK_FRAME = "base_link", "trunk"  # KDL wants a root without mass
IMU_FRAME = "imu_link"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("robot", metavar="ROBOT", help="name of a file in config/robots, or the path of one")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write; without it, to stdout")


def run(args: argparse.Namespace) -> int:
    """Write the URDF; 0 when it is written."""
    text = robot_urdf(load_robot(args.robot))
    if args.output is None:
        print(text, end="")
    else:
        write_whole(args.output, text.encode())
    return 0


def robot_urdf(robot: Robot) -> str:
    """The URDF of `robot`: base_link with trunk (its centre, as in odom) and imu_link, and four legs of hip, thigh,
    calf and foot with the joints of joint_states. Shapes are boxes, cylinders and spheres.
    """
    root = Xml.Element("robot", name=robot.name)
    for name, color in COLORS.items():
        Xml.SubElement(Xml.SubElement(root, "material", name=name), "color", rgba=color)
    _add_trunk(root, robot)
    for leg in LEGS:
        _add_leg(root, robot, leg)
    Xml.indent(root)
    return '<?xml version="1.0"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _add_trunk(root: Xml.Element, robot: Robot) -> None:
    half_x, half_y, half_z = robot.geometry.trunk
    Xml.SubElement(root, "link", name=BASE_FRAME)
    trunk = Xml.SubElement(root, "link", name=TRUNK_FRAME)
    _add_joint(root, "trunk_joint", "fixed", BASE_FRAME, TRUNK_FRAME, (0.0, 0.0, 0.0))
    _add_inertial(trunk, robot.bodies["trunk"])
    _add_shape(trunk, "box", (0.0, 0.0, 0.0), "grey", size=_text(2 * half_x, 2 * half_y, 2 * half_z))
    head = _text(0.1, 1.6 * half_y, 1.4 * half_z)
    _add_shape(trunk, "box", (0.9 * half_x, 0.0, 0.5 * half_z), "blue", collides=False, size=head)
    Xml.SubElement(root, "link", name=IMU_FRAME)
    _add_joint(root, "imu_joint", "fixed", TRUNK_FRAME, IMU_FRAME, (0.0, 0.0, 0.0))


def _add_leg(root: Xml.Element, robot: Robot, leg: str) -> None:
    size = robot.geometry
    front, left = (1.0 if leg.startswith("F") else -1.0), (1.0 if leg.endswith("L") else -1.0)
    side = left * size.abduction
    hip = _add_link(root, f"{leg}_hip", robot.bodies["hip"], front, left)
    width = _text(0.4 * size.abduction)
    _add_shape(hip, "cylinder", (0.0, 0.9 * side, 0.0), "dark", turned=True, radius=_text(HIP_RADIUS), length=width)
    thigh = _add_link(root, f"{leg}_thigh", robot.bodies["thigh"], 1.0, left)
    _add_shape(
        thigh, "cylinder", (0.0, 0.0, -size.thigh / 2), "grey", radius=_text(THIGH_RADIUS), length=_text(size.thigh)
    )
    calf = _add_link(root, f"{leg}_calf", robot.bodies["calf"], 1.0, left)
    _add_shape(calf, "cylinder", (0.0, 0.0, -size.calf / 2), "dark", radius=_text(CALF_RADIUS), length=_text(size.calf))
    # Shape and mass of the foot are the calf's: the foot itself is a frame.
    _add_shape(calf, "sphere", (0.0, 0.0, -size.calf), "dark", radius=_text(size.foot_radius))
    Xml.SubElement(root, "link", name=f"{leg}_foot")
    hip_place = (front * size.hip_x, left * size.hip_y, 0.0)
    _add_hinge(root, robot, leg, "hip", TRUNK_FRAME, hip_place, "1 0 0")
    _add_hinge(root, robot, leg, "thigh", f"{leg}_hip", (0.0, side, 0.0), "0 1 0")
    _add_hinge(root, robot, leg, "calf", f"{leg}_thigh", (0.0, 0.0, -size.thigh), "0 1 0")
    _add_joint(root, f"{leg}_foot_joint", "fixed", f"{leg}_calf", f"{leg}_foot", (0.0, 0.0, -size.calf))


def _add_link(root: Xml.Element, name: str, body: Body, front: float, left: float) -> Xml.Element:
    link = Xml.SubElement(root, "link", name=name)
    _add_inertial(link, body, front, left)
    return link


def _add_inertial(link: Xml.Element, body: Body, front: float = 1.0, left: float = 1.0) -> None:
    x, y, z = body.com
    inertial = Xml.SubElement(link, "inertial")
    Xml.SubElement(inertial, "origin", xyz=_text(x * front, y * left, z))
    Xml.SubElement(inertial, "mass", value=_text(body.mass))
    moments = dict(zip(("ixx", "iyy", "izz"), map(_text, body.inertia), strict=True))
    Xml.SubElement(inertial, "inertia", moments | dict.fromkeys(("ixy", "ixz", "iyz"), "0"))


def _add_shape(
    link: Xml.Element,
    kind: str,
    place: tuple[float, float, float],
    color: str,
    collides: bool = True,
    turned: bool = False,
    **sizes: str,
) -> None:
    """Add a shape to be seen and, where it `collides`, touched; a `turned` cylinder lies along y instead of z."""
    for purpose in ("visual", "collision") if collides else ("visual",):
        part = Xml.SubElement(link, purpose)
        Xml.SubElement(part, "origin", xyz=_text(*place), rpy="1.5707963267948966 0 0" if turned else "0 0 0")
        Xml.SubElement(Xml.SubElement(part, "geometry"), kind, sizes)
        if purpose == "visual":
            Xml.SubElement(part, "material", name=color)


def _add_hinge(
    root: Xml.Element, robot: Robot, leg: str, kind: str, parent: str, place: tuple[float, float, float], axis: str
) -> None:
    facts = robot.joints[kind]
    low, high = facts.left if leg.endswith("L") else facts.right
    joint = _add_joint(root, f"{leg}_{kind}_joint", "revolute", parent, f"{leg}_{kind}", place)
    Xml.SubElement(joint, "axis", xyz=axis)
    limits = {"lower": low, "upper": high, "effort": facts.torque, "velocity": facts.velocity}
    Xml.SubElement(joint, "limit", {name: _text(value) for name, value in limits.items()})
    Xml.SubElement(joint, "dynamics", damping=_text(facts.damping), friction=_text(facts.friction))


def _add_joint(
    root: Xml.Element, name: str, kind: str, parent: str, child: str, place: tuple[float, float, float]
) -> Xml.Element:
    joint = Xml.SubElement(root, "joint", name=name, type=kind)
    Xml.SubElement(joint, "origin", xyz=_text(*place), rpy="0 0 0")
    Xml.SubElement(joint, "parent", link=parent)
    Xml.SubElement(joint, "child", link=child)
    return joint


def _text(*numbers: float) -> str:
    return " ".join(f"{number:.10g}" for number in numbers)
