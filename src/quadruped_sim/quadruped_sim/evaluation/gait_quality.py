"""Quality of a gait from the sensors of every time step: slip, chatter, clearance, duty, cost of transport, saturation.

Definitions. A foot is on the ground while its touch sensor reads more than CONTACT_FORCE. Figures of feet and the cost
of transport count while the gait clock walks, saturation always; none counts before the episode has settled or after a
fall. Sums are taken over all robots before ratios are formed.
"""

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from fcnet_core.arrays import Array, Mask
from fcnet_core.rotation import GRAVITY
from quadruped_sim.physics.body import Samples
from quadruped_sim.physics.mjcf import feet_of
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.tasks.view import View

CONTACT_FORCE = 1.0  # [N], as in legged_gym (Rudin et al., 2022)
SATURATED = 0.99  # of what the motor can give
SHORTEST_SWING = 0.06  # [s] a foot that is off the ground for less has bounced; a swing takes 0.13 and more

if TYPE_CHECKING:
    Figure = float
else:
    Figure = float | None  # a result file has null for NaN: nothing was counted


class GaitQuality(Struct, frozen=True):
    """Figures of a scenario, NaN if nothing was counted, as in standing.

    slip [m/s]: mean horizontal speed of the lowest point of the feet on the ground, that is of the foot's centre plus
    spin x radius, so that rolling is no slip. slip_share: slip / mean horizontal speed of the trunk.
    touchdowns: per foot and stride of the gait clock; 1 for a clean gait, more with chatter.
    clearance [m]: mean over swings of the sole's highest point above the ground below it.
    duty: share of the time for which a foot is on the ground.
    cost_of_transport: sum over joints and time of max(torque x velocity, 0) dt / (weight x path of the trunk): the
    positive mechanical work of the joints (no heat, no recuperation), per weight and distance.
    torque_saturation, speed_saturation: share of the time for which some joint gives at least SATURATED of its largest
    torque, or of its largest torque at its velocity (torque-speed curve). joint_...: share of the joints' time.
    """

    slip: Figure
    slip_share: Figure
    touchdowns: Figure
    clearance: Figure
    duty: Figure
    cost_of_transport: Figure
    torque_saturation: Figure
    joint_torque_saturation: Figure
    speed_saturation: Figure
    joint_speed_saturation: Figure

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) is None:
                force_setattr(self, name, np.nan)


# What is summed for each robot: numerator and denominator of each figure. "speed", the trunk's, is for slip_share.
FIGURES = (*(name for name in GaitQuality.__struct_fields__ if name != "slip_share"), "speed")


def no_sums(batch: int) -> Array:
    """Return the sums (B, len(FIGURES), 2) of robots of which nothing was counted."""
    return np.zeros((batch, len(FIGURES), 2))


class GaitRecorder:
    """Sums for one batch, control period by control period. The limits of a motor that is weak are lower, those of a
    strong one are the robot file's.
    """

    def __init__(self, simulation: Simulation) -> None:
        robot, size = simulation.robot, simulation.batch
        self._robot, self._terrain = robot, simulation.terrain
        self._radius = robot.geometry.foot_radius if robot.primitives else 0.0  # about the origin of a file's body
        self._period, self._step = simulation.period, simulation.time_step
        self._torque_limit, self._weight = simulation.torque_limit, GRAVITY * simulation.mass
        feet = (size, len(feet_of(robot)))
        self._contact = np.ones(feet, dtype=bool)  # at the last sample
        self._airborne: Array = np.zeros(feet)  # [s] since the foot has left the ground
        self._highest: Array = np.zeros(feet)  # [m] since then
        self.sums = no_sums(size)

    def record(self, view: View, stride_rate: Array, counted: Mask) -> None:
        """Add a control period that began in the state of `view`, with the gait clock's strides per second (B,), for
        the robots that are `counted` (B,).
        """
        samples, walks = view.records, counted & view.walking
        self._add_motors(samples, counted)
        self._add_feet(samples, walks)
        strides = stride_rate * self._period * self._contact.shape[1]
        distance = np.hypot(*view.state.linear_velocity[:, :2].T) * self._period
        energy = np.maximum(samples["torque"] * samples["joint_rate"], 0.0).sum((0, 2)) * self._step
        self._add("touchdowns", walks, whole=strides)
        self._add("speed", walks, distance, self._period)
        self._add("cost_of_transport", walks, energy, self._weight * distance)

    def _add(self, figure: str, counted: Mask, part: Array | float = 0.0, whole: Array | float = 0.0) -> None:
        """Add (B,) to numerator and denominator of a figure, for the robots that are `counted` (B,)."""
        sums = self.sums[:, FIGURES.index(figure)]
        sums[:, 0] += np.where(counted, part, 0.0)
        sums[:, 1] += np.where(counted, whole, 0.0)

    def _add_motors(self, samples: Samples, counted: Mask) -> None:
        torque = samples["torque"]
        lowest, highest = self._robot.torque_bounds(samples["joint_rate"])
        strength = SATURATED * self._torque_limit / self._robot.torque_limit
        at_limit = np.abs(torque) >= SATURATED * self._torque_limit
        at_curve = (torque <= strength * lowest) | (torque >= strength * highest)
        for figure, limited in (("torque_saturation", at_limit), ("speed_saturation", at_curve)):
            self._add(figure, counted, limited.any(-1).sum(0), len(torque))
            self._add(f"joint_{figure}", counted, limited.sum((0, 2)), torque[:, 0].size)

    def _add_feet(self, samples: Samples, walks: Mask) -> None:
        feet, velocity, spin = samples["foot_position"], samples["foot_velocity"], samples["foot_spin"]
        contact, radius = samples["foot_force"] > CONTACT_FORCE, self._radius
        slip = np.hypot(velocity[..., 0] - radius * spin[..., 1], velocity[..., 1] + radius * spin[..., 0])
        above = feet[..., 2] - radius - self._terrain.height(feet[..., 0], feet[..., 1])
        contacts = contact.sum((0, 2))
        self._add("duty", walks, contacts, contact[:, 0].size)
        self._add("slip", walks, (slip * contact).sum((0, 2)), contacts)
        for now, height in zip(contact, above, strict=True):
            landed = now & ~self._contact
            swung = landed & (self._airborne >= SHORTEST_SWING)
            self._add("touchdowns", walks, landed.sum(1))
            self._add("clearance", walks, np.where(swung, self._highest, 0.0).sum(1), swung.sum(1))
            self._airborne = np.where(now, 0.0, self._airborne + self._step)
            self._highest = np.where(now, 0.0, np.maximum(self._highest, height))
            self._contact = now


def quality(sums: Array) -> GaitQuality:
    """Return the figures of a scenario from the sums (B, len(FIGURES), 2) of its robots."""
    parts, wholes = sums.sum(0).T.tolist()
    ratios = [part / whole if whole else float("nan") for part, whole in zip(parts, wholes, strict=True)]
    figures = dict(zip(FIGURES, ratios, strict=True))
    speed = figures.pop("speed")
    return GaitQuality(slip_share=figures["slip"] / speed if speed else float("nan"), **figures)
