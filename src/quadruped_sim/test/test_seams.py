"""Robots of other joints go the whole way as users have them: robot file, data, training, model file, simulator,
controller, recording, report.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_bag import EPOCH, IMU, JOINTS, MODE, ODOM, STEP_TYPE, STEPS, MadeBag, message, stamped, text, trajectory
from made_robots import FOLDER
from page_reader import PageReader
from policy_forms import forms_of, parallel, steps_of_network

from fcnet_core.arrays import Array
from fcnet_core.control.controller import Controller
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.learning.config import TrainConfig
from fcnet_core.learning.dataset import DatasetWriter, velocity_manifest
from fcnet_core.learning.imitation import Imitation
from fcnet_core.model_file import PolicyModel, check_robot, load_model, save_model
from fcnet_core.names import Mode
from fcnet_core.observation import velocity_interface
from fcnet_core.policy import load_policy
from fcnet_core.robot import SETPOINT_FIELDS, Robot, load_robot, per_joint
from fcnet_core.rotation import projected_gravity
from fcnet_replay.evaluation import evaluate_bag
from fcnet_replay.report.page import page
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import Flat

EXACT = 1e-5  # [rad]


@dataclass(frozen=True)
class Case:
    """A robot and what its expert does: it bends joints by `bend` [rad per m/s] of the commanded velocity, and those
    that `balance` names by the lean of the trunk.
    """

    name: str
    rate: float
    policy_type: str
    config: dict[str, Any]
    bend: dict[str, float]
    balance: dict[str, float]

    @cached_property
    def robot(self) -> Robot:
        return load_robot(FOLDER / f"{self.name}.yaml")

    def expert(self, signals: dict[str, Array], forward: Array) -> Array:
        """Return targets (B, N) [rad] for the commanded velocities (B,) [m/s]."""
        lean = 2.0 * projected_gravity(signals["orientation"])[:, 0] + 0.2 * signals["angular_velocity"][:, 1]
        bend, balance = (per_joint(values, self.robot.joint_names, "joints") for values in (self.bend, self.balance))
        return self.robot.stand_pose + forward[:, None] * bend + lean[:, None] * balance


CASES = [
    Case("biped", 100.0, "mlp", {"window": 1, "hidden": [64]},
         bend={"*_hip_roll": 0.0, "*_hip_pitch": -0.4, "*_knee": 0.8, "*_ankle": -0.4},
         balance={"*_hip_*": 0.0, "*_knee": 0.0, "*_ankle": 1.0}),
    Case("tailed", 50.0, "fcnet", {"layers": 1, "modes": 4, "hidden": 16, "decoder_hidden": 16, "window": 8},
         bend={"*_hip_joint": 0.0, "*_thigh_joint": 0.4, "*_calf_joint": -0.8, "tail_joint": 1.0},
         balance={"*": 0.0}),
]  # fmt: skip


def forward(speed: float | Array) -> Array:
    """Setpoints (..., 9) straight ahead [m/s]."""
    return np.asarray(speed)[..., None] * (np.arange(len(SETPOINT_FIELDS)) == SETPOINT_FIELDS.index("vx"))


def collect(case: Case, folder: Path, batch: int = 6, steps: int = 300) -> None:
    """Record the expert, whose targets are disturbed, on robots that are reset when they fall."""
    robot, rng, period = case.robot, np.random.default_rng(0), 1.0 / case.rate
    simulation, limiter = Simulation(robot, batch, Flat(), 0, period=period), JointLimiter(robot, period, batch)
    runner = PolicyRunner(None, velocity_interface(robot, case.rate), limiter)
    rows: dict[str, list[Array]] = {"observation": [], "action": [], "first": []}
    fallen, speed = np.ones(batch, dtype=bool), np.zeros(batch)
    for step in range(steps):
        simulation.reset(fallen)
        runner.reset(fallen)
        limiter.start(simulation.state().joint_position, fallen)
        speed = rng.uniform(-0.3, 0.5, batch) if step % 50 == 0 else speed
        runner.take_command(forward(speed))
        signals = simulation.signals()
        wanted = case.expert(signals, runner.setpoint[:, 0])
        rows["observation"].append(runner.observe(signals))
        rows["action"].append(limiter.within_limits(wanted))
        rows["first"].append(fallen)
        simulation.step(runner.send(wanted + rng.normal(0.0, 0.03, wanted.shape)))
        fallen = simulation.fallen(simulation.state())
    writer = DatasetWriter(folder, velocity_manifest(robot, case.rate))
    writer.add({}, **{name: np.stack(values, axis=1) for name, values in rows.items()})


def train(case: Case, data: Path) -> PolicyModel:
    """Train for 50 steps."""
    size = {"steps": 50, "batch": 16, "crop": 32, "held_out_share": 0.2}
    settings = {"learning_rate": 1e-2, "observation_noise": "white", "data": (str(data),), **size}
    run = Imitation(TrainConfig(policy_type=case.policy_type, config=case.config, **settings))
    assert run.trainer.run(lambda progress: None, lambda: False)
    assert run.trainer.progress.held_out_error < 0.05
    return run.policy("test")


@dataclass
class Recording(MadeBag):
    """A bag with the messages of a robot that was driven."""

    def __post_init__(self) -> None:
        self.found: list[tuple[float, str, Any]] = []

    def _messages(self) -> list[tuple[float, str, Any]]:
        return self.found

    def take(self, time: float, live: LiveRobot, controller: Controller, targets: Array, sent: float) -> None:
        """Record a control cycle: the state that the controller saw, what it sent, and when it sent the last one."""
        state, truth = controller.state, live.ground_truth()
        quaternion = dict(zip("xyzw", state.orientation.tolist(), strict=True))
        spin = dict(zip("xyz", state.angular_velocity.tolist(), strict=True))
        joints = {"name": list(live.robot.joint_names), "position": state.joint_position,
                  "velocity": state.joint_velocity, "effort": live.read_sensors().torque}  # fmt: skip
        imu = {"angular_velocity": spin, "linear_acceleration": {"z": 9.81}, "orientation": quaternion}
        place = {"position": dict(zip("xyz", truth.position.tolist(), strict=True)), "orientation": quaternion}
        odometry = {"child_frame_id": "trunk", "pose": {"pose": place}}
        contents = ((JOINTS, joints), (IMU, imu), (ODOM, odometry))
        self.found += [(time, topic, stamped(topic, time, values)) for topic, values in contents]
        self.found.append(trajectory(time + 0.002, targets, live.robot.joint_names))
        if step := controller.policy_step:
            values = step.vector()
            values[:4] += np.array([time + 0.002, sent, time, time]) + EPOCH
            self.found.append((time + 0.004, STEPS, message(STEP_TYPE, {"data": values})))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_robot_goes_from_its_file_to_a_report(case, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FCNET_ROBOTS", str(FOLDER))  # the folder of its file
    robot, path = load_robot(case.name), tmp_path / "policy.safetensors"
    collect(case, tmp_path / "data")
    save_model(train(case, tmp_path / "data"), path)
    model = load_model(path)
    interface = model.card.interface
    assert (model.card.format_version, interface.robot, interface.rate) == (2, case.name, case.rate)
    assert (interface.joints, interface.inputs) == (robot.joint_names, velocity_interface(robot).inputs)
    check_robot(model, robot)

    seen = np.load(tmp_path / "data/shard-00000/observation.npy")[0, :100]
    mean, scale = (model.scales[name].astype(np.float64) for name in ("action_mean", "action_scale"))
    scaled = model.normalisation.input(seen, "observation")
    sequence, steps = parallel(model, scaled), steps_of_network(model, scaled)
    np.testing.assert_allclose(steps, sequence, atol=1e-9, rtol=0)
    for form in forms_of(case.policy_type).values():
        np.testing.assert_allclose(form(model, seen), mean + scale * sequence, atol=5e-6, rtol=0)

    bag = drive(model, robot, tmp_path / "bag")
    evaluation = evaluate_bag(bag, [path], case.name)
    error = evaluation.figures["policies"]["A"]["action_error_rad"]
    assert error["agrees"] and error["steps"] > case.rate and error["max"] < EXACT
    assert evaluation.run.joint_names == robot.joint_names
    words = PageReader(page(evaluation)).words
    assert {name.removesuffix("_joint").replace("_", " ") for name in robot.joint_names} <= set(words)


def drive(model: PolicyModel, robot: Robot, bag: Path) -> Path:
    """Let the controller stand up, walk and lie down in the simulator; check it, and write what happened to a bag."""
    period, start = 1.0 / model.card.interface.rate, "standing" if robot.lie_pose is None else "lying"
    live = LiveRobot(robot, Flat(), noise=0.0, start=start, period=period)
    runner = PolicyRunner(load_policy(model), model.card.interface, JointLimiter(robot, period))
    controller = Controller(robot, live.measure(), runner, stand_up_time=0.3, lie_down_time=0.5)
    controller.stand_up(0.0)
    recording, modes, sent = Recording(model, robot), [Mode.PASSIVE], 0.0
    for now in np.arange(0.0, 8.0, period).tolist():
        if controller.mode is Mode.STANDING:
            controller.walk()
        if runner.steps == round(1.5 / period):
            controller.lie_down()
        controller.prepare(now, forward(0.3))
        controller.state = live.measure()
        targets = controller.cycle(now)
        if controller.mode is not modes[-1]:
            modes.append(controller.mode)
            recording.found.append((now, MODE, text(controller.mode.value)))
        if modes[-1] is Mode.PASSIVE:
            break
        recording.take(now, live, controller, targets, sent)
        live.step(targets)
        sent = now + 0.002
    leaving = [] if robot.lie_pose is None else [Mode.LYING_DOWN]
    assert modes[1:] == [Mode.STANDING_UP, Mode.STANDING, Mode.WALKING, *leaving, Mode.PASSIVE], controller.fault
    return recording.write(bag)
