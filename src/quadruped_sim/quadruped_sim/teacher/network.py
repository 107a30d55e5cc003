"""The teacher's networks for stable-baselines3, and the actor as a policy file."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.policies.export import exported_step
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.robot import Robot
from quadruped_sim.teacher.expert import ACTION_UNIT, Permutation, mirrored

OBSERVATION_CLIP = 6.0  # [standard deviations]


class Networks(nn.Module):
    """Actor, and critic up to its last layer, with the interface of stable-baselines3's MlpExtractor. Both see
    observations (B, n) in standard deviations from their mean; the actor only the teacher's part. An action (B, N) is
    the mean of the robots' own and of the mirrored robots', mirrored. mirrors: of observations and actions.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self, hidden: tuple[int, ...], mean: Single, deviation: Single, mirrors: tuple[Permutation, Permutation]
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("deviation", torch.as_tensor(deviation))
        self._mirrors = [(torch.as_tensor(source), torch.as_tensor(sign)) for source, sign in mirrors]
        self.size, self.latent_dim_pi, self.latent_dim_vf = len(mirrors[0][0]), len(mirrors[1][0]), hidden[-1]
        last = nn.Linear(hidden[-1], self.latent_dim_pi)
        self.actor, self.critic = nn.Sequential(*_layers(self.size, *hidden), last), _layers(len(mean), *hidden)

    def forward_actor(self, observation: Tensor) -> Tensor:
        of_observation, of_action = self._mirrors
        seen = observation[:, : self.size]
        both = torch.stack([seen, mirrored(seen, of_observation)], dim=1)
        own, image = self.actor(self._normalised(both)).unbind(1)
        action: Tensor = (own + mirrored(image, of_action)) / 2
        return action

    def forward_critic(self, observation: Tensor) -> Tensor:
        latent: Tensor = self.critic(self._normalised(observation))
        return latent

    def _normalised(self, values: Tensor) -> Tensor:
        size = values.shape[-1]
        scaled = (values - self.mean[:size]) / self.deviation[:size]
        return torch.clamp(scaled, -OBSERVATION_CLIP, OBSERVATION_CLIP)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(observation), self.forward_critic(observation)


def _layers(*sizes: int) -> nn.Sequential:
    return nn.Sequential(*(layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.GELU())))


class TeacherPolicy(ActorCriticPolicy):
    """An actor and a critic with an optimizer of two learning rates. networks: arguments of Networks."""

    mlp_extractor: Networks  # type: ignore[assignment]  # any module with these methods

    def __init__(self, *arguments: Any, networks: dict[str, Any], critic_learning_rate: float, **settings: Any) -> None:
        self._networks, self._critic_learning_rate = networks, critic_learning_rate
        super().__init__(*arguments, **settings)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = Networks(**self._networks)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = nn.Identity()
        critic = [*self.mlp_extractor.critic.parameters(), *self.value_net.parameters()]
        actor: dict[str, Any] = {"params": [*self.mlp_extractor.actor.parameters(), self.log_std]}
        groups = [actor, {"params": critic, "lr": self._critic_learning_rate}]
        self.optimizer = torch.optim.Adam(groups, lr=lr_schedule(1), eps=1e-5)

    def actor_weights(self) -> dict[str, nn.Parameter]:
        """Return the weights of the actor by their names in a model file, from the first layer to the last."""
        layers = (layer for layer in self.mlp_extractor.actor.modules() if isinstance(layer, nn.Linear))
        named = ((index, layer.named_parameters()) for index, layer in enumerate(layers))
        return {f"layers.{index}.{name}": values for index, layer in named for name, values in layer}


class TeacherPPO(PPO):
    """PPO whose optimizer keeps its learning rates."""

    policy: TeacherPolicy

    def _update_learning_rate(self, optimizers: Any) -> None:
        pass


def teacher_model(policy: TeacherPolicy, robot: Robot, facts: dict[str, Any], rate: float) -> PolicyModel:
    """Return the actor as a policy: an MLP over one observation of the teacher, `rate` times a second. facts: of its
    training.
    """
    networks, size = policy.mlp_extractor, policy.mlp_extractor.size
    weights = {name: values.detach().numpy().copy() for name, values in policy.actor_weights().items()}
    scales = {
        "observation_mean": networks.mean[:size].numpy().copy(),
        "observation_std": networks.deviation[:size].numpy().copy(),
        "action_mean": robot.stand_pose.astype(np.float32),
        "action_scale": np.full(len(robot.joints), ACTION_UNIT, np.float32),
    }
    *hidden, _ = (len(values) for name, values in weights.items() if name.endswith("bias"))
    config = MLPConfig(observation=size, action=len(robot.joints), window=1, hidden=tuple(hidden))
    card = card_for_robot(robot, config, control_rate=rate, observation_clip=OBSERVATION_CLIP, training=facts)
    return PolicyModel(card, weights, scales, exported_step(config))


def load_actor(policy: TeacherPolicy, teacher: PolicyModel) -> None:
    """Give the actor the weights and the scales of a teacher of its sizes."""
    networks, size = policy.mlp_extractor, policy.mlp_extractor.size
    with torch.no_grad():
        for name, values in policy.actor_weights().items():
            values.copy_(torch.as_tensor(teacher.weights[name]))
        networks.mean[:size] = torch.as_tensor(teacher.scales["observation_mean"])
        networks.deviation[:size] = torch.as_tensor(teacher.scales["observation_std"])
