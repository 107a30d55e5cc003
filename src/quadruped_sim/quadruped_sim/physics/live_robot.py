"""One robot in MuJoCo that follows the newest command and never starts an episode, as a real one."""

import mujoco
import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, ArraySpec
from fcnet_core.legs.stand_motion import STANDING, stand_path
from fcnet_core.observation import RobotState, SensorErrors, SensorReading, TrunkPose
from fcnet_core.observation.sensors import DEFAULT, sensors_of
from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw, xyzw_from_wxyz
from quadruped_sim.physics.body import MEASURED, Body, time_step
from quadruped_sim.physics.mjcf import STIFFNESS, build_model, folded_height, stand_height
from quadruped_sim.physics.placement import Place, StartPose, trunk_above
from quadruped_sim.physics.terrain import Terrain

ACCELEROMETER_NOISE = 0.3  # [m/s^2] standard deviation at noise 1
UPSIDE_DOWN = np.array([0.0, 1.0, 0.0, 0.0])  # w, x, y, z: half a turn about the forward axis
SETTLING_TIME = 1.5  # [s] in which a robot that was laid down comes to rest


class LiveRobot(Body):
    """A robot on a terrain, damped until it gets position targets.

    start, place: pose and place of the start; changes take effect at the next reset. period [s]: of the control. noise:
    factor of the errors of its sensors, see config/sensors.yaml.
    """

    def __init__(
        self,
        robot: Robot,
        terrain: Terrain,
        *,
        timestep: float | None = None,
        noise: float = 1.0,
        start: StartPose = "lying",
        place: Place | None = None,
        seed: int = 0,
        period: float = 0.02,
    ) -> None:
        super().__init__(robot, build_model(robot, terrain, timestep or time_step(period), inputs="pos vel ff"))
        self.terrain, self.period = terrain, period
        self.start: StartPose = start
        self.place = place or Place()
        self._noise = noise
        self._rng = np.random.default_rng(seed)
        sizes = {"projected_gravity": 3, "angular_velocity": 3, **dict.fromkeys(MEASURED[:2], len(robot.joints))}
        self._spec = ArraySpec((sum(sizes.values()),), parts=sizes)
        rng = np.random.default_rng([seed, 2])
        self._errors = SensorErrors(sensors_of(DEFAULT), self._spec, rng, scale=noise)
        self._elapsed = self._measured = 0.0
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
        lying = self.start != "standing"
        height = folded_height(self.robot) if lying else stand_height(self.robot)
        trunk = trunk_above(self.robot, self.terrain, self.place, height)
        if self.start == "on_back":
            mujoco.mju_mulQuat(trunk[3:], trunk[3:].copy(), UPSIDE_DOWN)
        self.put(trunk, self.robot.rest_pose)
        if lying:
            self.damp()
        else:
            legs = stand_path(self.robot)
            legs.start(self.robot.stand_pose, self.orientation)
            self.move(trunk, legs.pose(STANDING))
            self.follow(legs.targets(STANDING))
        self.advance(round(SETTLING_TIME / self.time_step) if lying else 1)
        self._elapsed -= float(self.data.time)

    def follow(self, targets: npt.ArrayLike) -> None:
        """Hold position targets (N,) [rad], clipped to the joint limits, with the robot's gains.

        Targets that are not finite raise ValueError and change nothing.
        """
        joints = np.asarray(targets, dtype=np.float64)
        if not np.isfinite(joints).all():
            raise ValueError("a position target is not a finite number")
        self._command(joints.clip(self.robot.lower, self.robot.upper), 0.0, 0.0, self.robot.kp, self.robot.kd)

    def damp(self) -> None:
        """Damp the joints: they follow no targets and only resist motion."""
        self._command(0.0, 0.0, 0.0, 0.0, self.robot.damping)

    def step(self, targets: Array | None) -> None:
        """Advance by one control period under position targets (N,) [rad], or damped."""
        self.damp() if targets is None else self.follow(targets)
        self.advance(round(self.period / self.time_step))

    def shove(self, speed: float, direction: float | None = None, height: float = 0.0) -> float:
        """Change the trunk's horizontal velocity by `speed` [m/s] towards `direction` [rad] from its heading, or in
        a random direction; return the direction. A push `height` [m] above the trunk's centre also turns the robot.
        """
        chosen = float(self._rng.uniform(-np.pi, np.pi)) if direction is None else direction
        rotation = matrix_from_xyzw(self.orientation)
        way = float(np.arctan2(rotation[1, 0], rotation[0, 0])) + chosen
        change = speed * np.array([np.cos(way), np.sin(way), 0.0])
        inertia = np.empty((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, inertia)
        impulse = float(self.model.body_mass.sum()) * change
        turn = rotation.T @ np.cross(height * rotation[:, 2], impulse)  # [Nms] in the trunk's frame
        self.accelerate(change, np.linalg.solve(inertia[self.at.spin, self.at.spin], turn))
        return chosen

    def read_sensors(self) -> SensorReading:
        """Return noisy measurements."""
        measured = self.measure()
        return SensorReading(
            position=measured.joint_position,
            velocity=measured.joint_velocity,
            torque=self.data.actuator_force.copy(),
            orientation=measured.orientation,
            angular_velocity=measured.angular_velocity,
            linear_acceleration=self.data.sensor("accelerometer").data
            + self._noise * ACCELEROMETER_NOISE * self._rng.standard_normal(3),
        )

    def ground_truth(self) -> TrunkPose:
        """Return the true pose and velocity of the trunk."""
        orientation = self.orientation
        return TrunkPose(
            position=self.data.qpos[self.at.position].copy(),
            orientation=orientation,
            linear_velocity=matrix_from_xyzw(orientation).T @ self.velocity[:3],
            angular_velocity=self.velocity[3:],
        )

    def measure(self) -> RobotState:
        """Return the state with the errors of the sensors."""
        data, at = self.data, self.at
        rates = data.sensordata[at.sampled["joint_rate"][0]] if self._noise else data.qvel[at.rates]  # see Simulation
        true = (np.zeros(3), data.sensor("gyroscope").data, data.qpos[at.joints], rates)
        since, self._measured = self.time - self._measured, self.time
        seen = self._errors.measure(np.concatenate(true)[None], max(since, 0.0))[0]
        gravity, spin, position, velocity = (seen[place] for place in self._spec.slices().values())
        turned = data.qpos[at.quaternion].copy()
        mujoco.mju_quatIntegrate(turned, gravity, 1.0)  # as large as the error of gravity
        return RobotState(position, velocity, xyzw_from_wxyz(turned), spin)

    def _command(self, *command: Array | float) -> None:
        """Set position, velocity, torque, stiffness and damping of the motors, for all or (N,)."""
        *inputs, stiffness, damping = command
        self.set_gains(stiffness, damping)
        for controls, value in zip(self.data.ctrl.reshape(-1, 3).T, inputs, strict=True):  # see build_model
            controls[:] = value


FASTEST = 1e6  # [rad/s], and the farthest [rad]: targets are clipped; MuJoCo rejects controls above 1e10
BLOCKED = 1000.0  # [Nms/rad] against which a motor's largest torque moves a joint by a few hundredths of a rad/s


class MotorDrivenRobot(LiveRobot):
    """A robot that starts lying and without torque. Its motors follow the newest command, even after its sender has
    ended.

    A motor's torque is torque + stiffness (position - q) + damping (velocity - dq), within its torque-speed curve;
    MuJoCo integrates its part in dq implicitly, so that high damping stays stable.
    """

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
        """Command the motors: arrays (N,) [rad, rad/s, Nm, Nm/rad, Nms/rad].

        Position targets are not clipped to the joint limits: the motors have none. What is not finite raises
        ValueError and changes nothing.
        """
        values = np.array([position, velocity, torque, stiffness, damping], dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError("a motor command is not a finite number")
        values[:2] = values[:2].clip(-FASTEST, FASTEST)
        self._command(*values)

    def release(self) -> None:
        """Remove the torque from all motors."""
        self.drive(*np.zeros((5, len(self.robot.joints))))

    def block(self, joint: int | None) -> None:
        """Hold one joint, by its index, in place whatever its motor does; None releases it."""
        damping = np.array([self.robot.motors[facts.motor].damping for facts in self.robot.joints.values()])
        if joint is not None:
            damping[joint] = BLOCKED
        self.model.dof_damping[self.at.rates] = damping

    def foot_force(self) -> Array:
        """Return the forces (F,) [N] of the ground on the feet."""
        return self.data.sensordata[self.at.sampled["foot_force"][0]].copy()
