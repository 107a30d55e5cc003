"""Bodies of a robot from a URDF or MuJoCo file that its user has; the motors and sensors are the suite's."""

from pathlib import Path

import mujoco

from fcnet_core.errors import SimulationError
from fcnet_core.robot import BodyFile, Robot

PREFIX = "robot/"  # of the names of the file, so that the ground's differ
WHOLE_BODY = [1.0, 1.0, 1.0]  # [m] radius of the site of a foot, which feels all contacts of its body
ROUNDING = 1e-6  # [rad]


def read(robot: Robot, source: BodyFile) -> mujoco.MjSpec:
    """Read the file, without its motors, sensors and keyframes, and without shapes for display whose mesh is missing.

    Raises SimulationError for a file that cannot be read, a body that is not in it, and a missing collision mesh.
    """
    try:
        spec = mujoco.MjSpec.from_file(source.file)
    except ValueError as error:
        raise SimulationError(f"the body file {source.file} of {robot.name} cannot be read: {error}") from error
    known = {body.name for body in spec.bodies} - {"world"}
    for name in (source.root, *source.feet.values(), source.imu or source.root):
        if name not in known:
            raise SimulationError(f"{source.file} has no body {name}; it has {', '.join(sorted(known))}")
    for element in (*spec.actuators, *spec.sensors, *spec.keys):
        spec.delete(element)
    _remove_missing_meshes(spec, source.file)
    return spec


def attach(robot: Robot, source: BodyFile, given: mujoco.MjSpec, world: mujoco.MjSpec) -> None:
    """Attach the robot of a file to the world: a free body, joints with the robot's motors, sites for the sensors."""
    root = given.body(source.root)
    for joint in root.joints:
        if joint.type == mujoco.mjtJoint.mjJNT_FREE:
            given.delete(joint)
    root.pos, root.quat = [0.0, 0.0, robot.nominal_height], [1.0, 0.0, 0.0, 0.0]
    world.worldbody.add_frame().attach_body(root, PREFIX, "")
    world.body(PREFIX + source.root).add_freejoint(name="root")
    world.body(PREFIX + (source.imu or source.root)).add_site(name="imu")
    for foot, body in source.feet.items():
        world.body(PREFIX + body).add_site(name=f"{foot}_foot", size=WHOLE_BODY, rgba=[0.0, 0.0, 0.0, 0.0])
    for name, joint in robot.joints.items():
        motor, simulated = robot.motors[joint.motor], world.joint(PREFIX + name)
        if simulated is None or simulated.type != mujoco.mjtJoint.mjJNT_HINGE:
            hinges = [known.name.removeprefix(PREFIX) for known in world.joints if known.name != "root"]
            raise SimulationError(f"{source.file} has no hinge {name} below {source.root}; it has {', '.join(hinges)}")
        simulated.armature, simulated.frictionloss = motor.armature, motor.friction
        simulated.damping = [motor.damping, 0.0, 0.0]
        simulated.actfrclimited = False  # the motor has the robot's limit


def compiled(robot: Robot, source: BodyFile, spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile the model. Raises SimulationError if MuJoCo refuses it or the robot's limits are beyond the file's."""
    try:
        model = spec.compile()
    except ValueError as error:
        raise SimulationError(f"the body file {source.file} of {robot.name} cannot be simulated: {error}") from error
    for name, facts in robot.joints.items():
        joint, (low, high) = model.joint(PREFIX + name), facts.limits
        least, most = joint.range
        if model.jnt_limited[joint.id] and not least - ROUNDING <= low < high <= most + ROUNDING:
            raise SimulationError(
                f"the limits {low:g} to {high:g} rad of {name} are beyond {least:g} to {most:g} rad in {source.file}; "
                f"correct the file of {robot.name}"
            )
    return model


def _remove_missing_meshes(spec: mujoco.MjSpec, file: str) -> None:
    folder = Path(file).parent / spec.meshdir
    for mesh in list(spec.meshes):
        if not mesh.file or (folder / (Path(mesh.file).name if spec.strippath else mesh.file)).is_file():
            continue
        for geom in [geom for geom in spec.geoms if geom.meshname == mesh.name]:
            if geom.contype or geom.conaffinity:
                advice = "write its path relative to the file" if ":" in mesh.file else "add it, or use simple shapes"
                raise SimulationError(
                    f"{file}: the collision mesh {mesh.file} of {geom.parent.name} is missing; {advice}"
                )
            spec.delete(geom)
        spec.delete(mesh)
