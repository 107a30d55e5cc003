"""Randomisation: ranges of the properties that differ from robot to robot, and samples from them."""

from typing import TYPE_CHECKING

import msgspec
import mujoco
import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.files import NotNegative, Positive
from fcnet_core.observation.sensors import DEFAULT, SensorModel
from quadruped_sim.physics.body import Body
from quadruped_sim.physics.mjcf import DAMPING, REAL, RESISTANCE, STIFFNESS, Effects

if TYPE_CHECKING:
    Range = tuple[float, float]
else:
    # As settings files have it, see `pair`, which checks it: msgspec 0.22 reads foreign memory if a union has both a
    # tuple of fixed length and a number with a range.
    Range = tuple[float, float] | float


def pair(value: Range | float) -> Range:
    """Return both ends of a range for which a settings file may give one number. Raises ValueError for an invalid
    range.
    """
    lowest, highest = value if isinstance(value, tuple) else (value, value)
    if not -1e9 <= lowest <= highest <= 1e9:  # as long as an evaluation holds its setpoints
        raise ValueError(f"the range {value} must go from a lower to a higher number, both within +-1e9")
    return lowest, highest


class Randomization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ranges from which each robot draws, and the effects that are simulated. The defaults are those of a real robot.

    Of a robot: friction, the coefficient of ground and feet; payload [kg] on the trunk; com [m], displacement of the
    trunk's centre of mass along x, y and z; factors of each joint's gain, and of joint_friction, joint_damping and
    armature; strength, a factor of the motors' gains and torque, which does not raise the peak; joint_zero [rad], what
    each encoder adds to the angle; delay [s] of the commands.
    Changing with time: jitter [s], the most that a command is later than the delay; dropout [s], how long no state
    arrives, on average every dropout_interval [s]. sensors: the model of their errors, `board` or the `white` noise of
    earlier releases, see config/sensors.yaml; noise: factor of these errors, 0 for true readings.
    """

    friction: Range = (0.7, 1.2)
    payload: Range = (-0.5, 1.0)
    com: Range = (-0.05, 0.05)  # MuJoCo Playground, Go1
    gain: Range = (0.95, 1.05)
    joint_friction: Range = (0.5, 1.5)  # Playground 0.9 to 1.1; wider, because the robot files' values are estimates
    joint_damping: Range = (0.5, 1.5)  # as above
    armature: Range = (0.9, 1.1)  # Playground 1.0 to 1.05
    strength: Range = (0.9, 1.1)  # walk-these-ways
    joint_zero: Range = (-0.02, 0.02)  # walk-these-ways; Playground 0.05
    delay: Range = (0.0, 0.02)
    jitter: NotNegative = 0.01
    dropout: Range = (0.0, 0.1)
    dropout_interval: Positive = 5.0
    sensors: SensorModel = DEFAULT
    noise: NotNegative = 1.0
    effects: Effects = REAL

    def __post_init__(self) -> None:
        for name in RANGES:
            msgspec.structs.force_setattr(self, name, pair(getattr(self, name)))
        for name in ("delay", "dropout", "strength", "gain", "joint_friction", "joint_damping", "armature", "friction"):
            if getattr(self, name)[0] < 0:
                raise ValueError(f"{name} must not be negative")


FACTORS = ("gain", "joint_friction", "joint_damping", "armature", "strength")
DRAWN = ("friction", "payload", "com", *FACTORS, "joint_zero", "delay")  # in this order from the random numbers
RANGES = (*DRAWN, "dropout")
Draw = dict[str, Array]  # see `draw`
OFF: dict[str, object] = {
    "payload": 0.0, "com": 0.0, "joint_zero": 0.0, "delay": 0.0, "dropout": 0.0, "jitter": 0.0,
    **dict.fromkeys(FACTORS, 1.0),
}  # fmt: skip
SIMPLE = Effects(False, False, False, False)

TYPICAL = Randomization()
NOMINAL = msgspec.convert({**OFF, "friction": 1.0}, Randomization)  # the robot files', with sensor noise
# As in the first release: rigid legs that pass through each other, ideal motors, no misfit but the command's delay.
KIND = msgspec.convert(
    {**OFF, "payload": (-0.5, 1.0), "gain": (0.95, 1.05), "delay": (0.0, 0.02), "effects": SIMPLE, "sensors": "white"},
    Randomization,
)


def draw(ranges: Randomization, batch: int, joints: int, rng: np.random.Generator) -> Draw:
    """Sample a batch of robots with so many joints: arrays (B,) by name, com (B, 3), gain and joint_zero (B, N)."""
    sizes = {"com": (3,), "gain": (joints,), "joint_zero": (joints,)}
    drawn: Draw = {}
    for name in DRAWN:
        low, high = getattr(ranges, name)
        drawn[name] = rng.uniform(low, high, (batch, *sizes.get(name, ())))
    return drawn


def apply_draw(body: Body, nominal: mujoco.MjModel, drawn: Draw, index: int) -> None:
    """Make a body the robot `index` of a draw; its data are overwritten. nominal: the model of the robot files."""
    model, trunk = body.model, body.at.trunk
    everywhere = nominal.geom_priority == 0  # a patch keeps its own
    model.geom_friction[everywhere, 0] = drawn["friction"][index]
    loaded = 1 + drawn["payload"][index] / nominal.body_mass[trunk]
    model.body_mass[trunk] = nominal.body_mass[trunk] * loaded
    model.body_inertia[trunk] = nominal.body_inertia[trunk] * loaded
    model.body_ipos[trunk] = nominal.body_ipos[trunk] + drawn["com"][index]
    model.dof_frictionloss[:] = nominal.dof_frictionloss * drawn["joint_friction"][index]
    model.dof_damping[:] = nominal.dof_damping * drawn["joint_damping"][index]
    model.dof_armature[:] = nominal.dof_armature * drawn["armature"][index]
    strength = drawn["strength"][index]
    for gain in (STIFFNESS, DAMPING):
        model.actuator_gainprm[:, gain] = nominal.actuator_gainprm[:, gain] * strength * drawn["gain"][index]
    model.actuator_gainprm[:, RESISTANCE] = nominal.actuator_gainprm[:, RESISTANCE] / strength
    model.actuator_forcerange[:] = nominal.actuator_forcerange * min(strength, 1.0)
    mujoco.mj_setConst(model, body.data)
