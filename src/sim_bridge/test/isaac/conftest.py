"""A simulation with the interface of legged_gym, and what a policy did in it."""

from types import SimpleNamespace

import numpy as np
import pytest
import rollout_writer
import torch

from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.model_file import load_model
from fcnet_core.observation import RobotState
from fcnet_core.policy import load_policy
from fcnet_core.robot import SETPOINT_FIELDS, load_robot
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_replay.isaac import read_recording
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.physics.terrain import named_terrain

JOINTS = load_robot("aliengo").joint_names
ISAAC_JOINTS = tuple(f"{leg}_{joint}_joint" for leg in ("FL", "FR", "RL", "RR") for joint in ("hip", "thigh", "calf"))
SUITE_FROM_ISAAC = [ISAAC_JOINTS.index(name) for name in JOINTS]
ISAAC_FROM_SUITE = [JOINTS.index(name) for name in ISAAC_JOINTS]
SPEED = 0.5  # [m/s]


class LeggedEnvironment:
    """The attributes and the step() of a legged_gym environment with three robots on flat ground."""

    def __init__(self, robot):
        self.robot = robot
        self.simulation = Simulation(robot, 3, named_terrain("flat"), seed=5)
        # As Isaac Gym's: tensors, and views of them, that are as old as the last refresh.
        self.dof_state, self.root_states = torch.zeros(3 * 12, 2), torch.zeros(3, 13)
        self.dof_pos, self.dof_vel = self.dof_state.view(3, 12, 2).unbind(-1)
        self._refresh()
        self.commands = torch.zeros(3, 4)
        self.dof_names = list(ISAAC_JOINTS)
        self.dt = 0.02
        self.default_dof_pos = torch.tensor(robot.stand_pose[ISAAC_FROM_SUITE], dtype=torch.float32)[None]
        self.reset_buf = torch.ones(3, dtype=torch.long)
        self.cfg = SimpleNamespace(
            control=SimpleNamespace(action_scale=0.25, control_type="P"),
            normalization=SimpleNamespace(clip_actions=100.0),
        )

    def step(self, actions):
        targets = self.default_dof_pos + 0.25 * torch.clip(actions, -100.0, 100.0)
        self.simulation.step(targets.double().numpy()[:, SUITE_FROM_ISAAC])
        self._refresh()
        self.reset_buf = torch.zeros(3, dtype=torch.long)
        return "observations", None, "rewards", self.reset_buf, {}

    def drive(self, steps):
        """The loop of a legged_gym play script: robot 1 stands for a second by the shipped policy, then walks forward;
        the others stand.
        """
        model, robot = load_model("aliengo"), self.robot
        limiter = JointLimiter(robot, 1.0 / model.card.interface.rate)
        runner = PolicyRunner(load_policy(model), model.card.interface, limiter)
        limiter.last = self.dof_pos[1].double().numpy()[SUITE_FROM_ISAAC]
        for step in range(steps):
            setpoint = np.zeros(len(SETPOINT_FIELDS))
            setpoint[0] = SPEED if step >= 50 else 0.0
            self.commands[:, 0] = float(setpoint[0])
            root = self.root_states[1].double().numpy()
            joints = (values[1].double().numpy()[SUITE_FROM_ISAAC] for values in (self.dof_pos, self.dof_vel))
            state = RobotState(*joints, root[3:7], matrix_from_xyzw(root[3:7]).T @ root[10:13])
            runner.take_command(setpoint)
            action = runner.act(runner.observe(state))
            runner.send(action)
            limiter.last = np.clip(action, robot.lower, robot.upper)
            actions = torch.zeros(3, 12)
            actions[1] = (torch.tensor(limiter.last[ISAAC_FROM_SUITE]) - self.default_dof_pos[0]) / 0.25
            self.step(actions)

    def _refresh(self):
        state = self.simulation.state()
        world = np.einsum("bij,bj->bi", matrix_from_xyzw(state.orientation), state.angular_velocity)
        root = np.concatenate([state.position, state.orientation, state.linear_velocity, world], axis=1)
        self.root_states.copy_(torch.from_numpy(root))
        self.dof_pos.copy_(torch.from_numpy(state.joint_position[:, ISAAC_FROM_SUITE]))
        self.dof_vel.copy_(torch.from_numpy(state.joint_velocity[:, ISAAC_FROM_SUITE]))


@pytest.fixture(scope="session")
def aliengo():
    return load_robot("aliengo")


@pytest.fixture
def environment(aliengo):
    return LeggedEnvironment(aliengo)


@pytest.fixture(scope="session")
def rollout(tmp_path_factory, aliengo):
    """Four seconds of the shipped policy as a .rollout file, recorded through env.step()."""
    path = tmp_path_factory.mktemp("isaac") / "walk.rollout"
    environment = LeggedEnvironment(aliengo)
    recorder = rollout_writer.attach(environment, str(path), env_id=1, robot="aliengo")
    environment.drive(200)
    recorder.close()
    return path


@pytest.fixture(scope="session")
def recording(rollout):
    return read_recording(rollout)
