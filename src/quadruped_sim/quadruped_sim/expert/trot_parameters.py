"""The trotting expert's constants."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrotParameters:
    """Constants found by trial in simulation. Lengths are shares of the stretched leg; gains
    of forces are accelerations per error, those of moments too, for an inertia of mass x hip_x^2.
    """

    duty: float = 0.6  # share of the stride on the ground, at walking speed
    duty_gain: float = 0.1  # less of it for each m/s above the gait's knee speed
    clearance: float = 0.16  # height of the swing
    lead: float = 1.15  # feet land early, so the stance is longer than planned by this factor
    placement_gain: float = 0.1  # [s] foothold by velocity error (Raibert)
    reach: float = 0.44  # farthest foothold from neutral, along x and along y
    speed_scale: float = 0.9  # a stance pulls the body a little faster than it moves its feet
    yaw_scale: float = 0.84
    velocity_gain: float = 8.0
    height_gain: float = 60.0
    height_damping: float = 10.0
    attitude_gain: float = 85.0
    attitude_damping: float = 10.0
    yaw_gain: float = 7.0
    friction: float = 0.3  # assumed of the ground: modest, so that a slippery floor is survived
    slope_rate: float = 0.08


# The light A1 strides faster for its size: it may lean harder on the ground and must correct its footholds less.
PARAMETERS = {"aliengo": TrotParameters(), "a1": TrotParameters(friction=0.6, placement_gain=0.06)}
