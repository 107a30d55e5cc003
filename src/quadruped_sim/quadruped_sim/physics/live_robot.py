"""One robot in MuJoCo that follows the newest command and never starts an episode, as a real one."""

from __future__ import annotations

import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.legs.stand_motion import STANDING, stand_path
from fcnet_core.observation import SENSOR_NOISE, SensorReading, TrunkPose
from fcnet_core.robot import LEGS, Robot
from fcnet_core.rotation import matrix_from_xyzw, xyzw_from_wxyz
from quadruped_sim.physics.mjcf import DAMPING, STIFFNESS, build_model, folded_height, stand_height
from quadruped_sim.physics.placement import Place, StartPose, trunk_above
from quadruped_sim.physics.terrain import Terrain

ACCELEROMETER_NOISE = 0.3  # [m/s^2] standard deviation at noise 1
UPSIDE_DOWN = np.array([0.0, 1.0, 0.0, 0.0])  # w, x, y, z: half a turn about the forward axis
SETTLING_TIME = 1.5  # [s] in which a robot that was laid down comes to rest


class LiveRobot:
    """A robot on a terrain, damped until it gets position targets, `noise` times as noisy as in training.

    start, place: pose and place of the start; changes take effect at the next reset.
    """

    def __init__(
        self,
        robot: Robot,
        terrain: Terrain,
        *,
        timestep: float = 0.004,
        noise: float = 1.0,
        start: StartPose = "lying",
        place: Place | None = None,
        seed: int = 0,
    ) -> None:
        self.robot = robot
        self.terrain = terrain
        self.start: StartPose = start
        self.place = place or Place()
        self.model = build_model(robot, terrain, timestep, inputs="pos vel ff")
        self.data = mujoco.MjData(self.model)
        self._noise = noise
        self._rng = np.random.default_rng(seed)
        self._elapsed = 0.0
        self.reset()

    @property
    def time(self) -> float:
        """Simulated seconds since this object was made; a reset does not turn it back."""
        return self._elapsed + float(self.data.time)

    @property
    def damped(self) -> bool:
        """Whether the joints are only damped, following no target."""
        return not self.model.actuator_gainprm[:, STIFFNESS].any()

    def reset(self) -> None:
        """Place the robot at rest: lying on belly or back and damped, or standing on stiff legs."""
        self._elapsed = self.time
        mujoco.mj_resetData(self.model, self.data)
        lying = self.start != "standing"
        height = folded_height(self.robot) if lying else stand_height(self.robot)
        self.data.qpos[:7] = trunk_above(self.robot, self.terrain, self.place, height)
        if self.start == "on_back":
            mujoco.mju_mulQuat(self.data.qpos[3:7], self.data.qpos[3:7].copy(), UPSIDE_DOWN)
        if lying:
            self.data.qpos[7:] = self.robot.rest_pose
            self.damp()
        else:
            legs = stand_path(self.robot)
            legs.start(self.robot.stand_pose, self._orientation())
            self.data.qpos[7:] = legs.pose(STANDING)
            self.follow(legs.targets(STANDING))
        self.advance(round(SETTLING_TIME / self.model.opt.timestep) if lying else 1)
        self._elapsed -= float(self.data.time)

    def follow(self, targets: npt.ArrayLike) -> None:
        """Hold position targets (12,) [rad], clipped to the joint limits, with the robot's gains.

        Targets that are not finite raise ValueError and change nothing.
        """
        joints = np.asarray(targets, dtype=np.float64)
        if not np.isfinite(joints).all():
            raise ValueError("a position target is not a finite number")
        joints = np.clip(joints, self.robot.lower, self.robot.upper)
        self._command(joints, 0.0, 0.0, self.robot.kp, self.robot.kd)

    def damp(self) -> None:
        """Damp the joints: they follow no targets and only resist motion."""
        self._command(0.0, 0.0, 0.0, 0.0, self.robot.damping)

    def advance(self, steps: int) -> None:
        """Simulate `steps` time steps."""
        mujoco.mj_step(self.model, self.data, steps)

    def push(self, speed: float, direction: float | None = None, height: float = 0.0) -> float:
        """Change the trunk's horizontal velocity by `speed` [m/s] towards `direction` [rad] from its heading, or in
        a random direction; return the direction. A push `height` [m] above the trunk's centre also turns the robot.
        """
        chosen = float(self._rng.uniform(-np.pi, np.pi)) if direction is None else direction
        rotation = matrix_from_xyzw(self._orientation())
        way = float(np.arctan2(rotation[1, 0], rotation[0, 0])) + chosen
        change = speed * np.array([np.cos(way), np.sin(way), 0.0])
        self.data.qvel[:3] += change
        inertia = np.empty((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, inertia)
        impulse = float(self.model.body_mass.sum()) * change
        turn = rotation.T @ np.cross(height * rotation[:, 2], impulse)  # [Nms] in the trunk's frame
        self.data.qvel[3:6] += np.linalg.solve(inertia[3:6, 3:6], turn)
        return chosen

    def read_sensors(self) -> SensorReading:
        """Return noisy measurements."""
        return SensorReading(
            position=self._noisy(self.data.qpos[7:], SENSOR_NOISE["sin_joint_position"]),
            velocity=self._noisy(self.data.qvel[6:], SENSOR_NOISE["joint_velocity"]),
            torque=self.data.actuator_force.copy(),
            orientation=self._noisy_orientation(),
            angular_velocity=self._noisy(self.data.sensor("gyroscope").data, SENSOR_NOISE["angular_velocity"]),
            linear_acceleration=self._noisy(self.data.sensor("accelerometer").data, ACCELEROMETER_NOISE),
        )

    def ground_truth(self) -> TrunkPose:
        """Return the true pose and velocity of the trunk."""
        inverse, velocity = np.empty(4), np.empty(3)
        mujoco.mju_negQuat(inverse, self.data.qpos[3:7])
        mujoco.mju_rotVecQuat(velocity, self.data.qvel[:3], inverse)
        return TrunkPose(
            position=self.data.qpos[:3].copy(),
            orientation=self._orientation(),
            linear_velocity=velocity,
            angular_velocity=self.data.qvel[3:6].copy(),
        )

    def _command(
        self,
        position: Array | float,
        velocity: Array | float,
        torque: Array | float,
        stiffness: Array | float,
        damping: Array | float,
    ) -> None:
        self.model.actuator_gainprm[:, STIFFNESS] = stiffness
        self.model.actuator_gainprm[:, DAMPING] = damping
        controls = self.data.ctrl.reshape(-1, 3)  # a motor's inputs, see build_model
        controls[:, 0], controls[:, 1], controls[:, 2] = position, velocity, torque

    def _orientation(self) -> Array:
        return xyzw_from_wxyz(self.data.qpos[3:7])

    def _noisy(self, true: Array, deviation: float) -> Array:
        return true + self._noise * deviation * self._rng.standard_normal(true.shape)

    def _noisy_orientation(self) -> Array:
        turned = self.data.qpos[3:7].copy()
        error = self._noise * SENSOR_NOISE["projected_gravity"] * self._rng.standard_normal(3)
        mujoco.mju_quatIntegrate(turned, error, 1.0)
        return xyzw_from_wxyz(turned)


FASTEST = FARTHEST = 1e6  # [rad/s, rad] targets are clipped to these; MuJoCo rejects controls above 1e10
TRUNK_FREEDOMS = 6
BLOCKED = 1000.0  # [Nms/rad] against which a motor's largest torque moves a joint by a few hundredths of a rad/s


class MotorDrivenRobot(LiveRobot):
    """A robot that starts lying and without torque. Its motors follow the newest command, even after its sender has
    ended.

    A motor's torque is torque + stiffness (position - q) + damping (velocity - dq), within its torque-speed curve;
    MuJoCo integrates its part in dq implicitly, so that high damping stays stable.
    """

    def __init__(
        self,
        robot: Robot,
        terrain: Terrain,
        *,
        timestep: float = 0.002,
        noise: float = 1.0,
        place: Place | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(robot, terrain, timestep=timestep, noise=noise, start="lying", place=place, seed=seed)
        self._free_damping = self.model.dof_damping.copy()
        touch = self.model.sensor(f"{LEGS[0]}_touch").adr[0]
        self._touch = slice(touch, touch + len(LEGS))

    def reset(self) -> None:
        """Return the robot to its start, at rest and without torque."""
        super().reset()
        self.release()

    def drive(
        self,
        position: npt.ArrayLike,
        velocity: npt.ArrayLike,
        torque: npt.ArrayLike,
        stiffness: npt.ArrayLike,
        damping: npt.ArrayLike,
    ) -> None:
        """Command the motors: arrays (12,) in JOINT_NAMES order [rad, rad/s, Nm, Nm/rad, Nms/rad].

        Position targets are not clipped to the joint limits: the motors have none. What is not finite raises
        ValueError and changes nothing.
        """
        values = np.array([position, velocity, torque, stiffness, damping], dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError("a motor command is not a finite number")
        target, speed, push, spring, damper = values
        target, speed = target.clip(-FARTHEST, FARTHEST), speed.clip(-FASTEST, FASTEST)
        self._command(target, speed, push, spring, damper)

    def release(self) -> None:
        """Remove the torque from all motors."""
        self.drive(*np.zeros((5, 12)))

    def block(self, joint: int | None) -> None:
        """Hold one joint, an index in JOINT_NAMES, in place whatever its motor does; None releases it."""
        self.model.dof_damping[:] = self._free_damping
        if joint is not None:
            self.model.dof_damping[TRUNK_FREEDOMS + joint] = BLOCKED

    def foot_force(self) -> Array:
        """Return the forces (4,) [N] of the ground on the feet FR, FL, RR, RL."""
        return self.data.sensordata[self._touch].copy()
