"""The teacher's networks for stable-baselines3, and the actor as a policy file."""

from __future__ import annotations

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
from quadruped_sim.teacher.expert import ACTION_UNIT
from quadruped_sim.teacher.symmetry import Permutation, mirrored

OBSERVATION_CLIP = 6.0  # [standard deviations]


def _tensors(mirror: Permutation) -> tuple[Tensor, Tensor]:
    return torch.as_tensor(mirror[0]), torch.as_tensor(mirror[1])


class SymmetricAction(nn.Linear):
    """The actor's last layer: actions (B, N), the mean of the robots' own and of the mirrored robots', mirrored, from
    latents (B, 2, hidden) of both.
    """

    def __init__(self, hidden: int, mirror: Permutation) -> None:
        super().__init__(hidden, len(mirror[0]))
        self._mirror = _tensors(mirror)

    def forward(self, latent: Tensor) -> Tensor:
        own, image = super().forward(latent).unbind(1)
        return (own + mirrored(image, self._mirror)) / 2


class Networks(nn.Module):
    """Actor and critic up to their last layers, with the interface of stable-baselines3's MlpExtractor. Both see
    observations (B, n) in standard deviations from their mean; the actor only the teacher's part, of the robots and of
    their mirror images. mirror: of the teacher's observations.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, hidden: tuple[int, ...], mean: Single, deviation: Single, mirror: Permutation) -> None:
        super().__init__()
        self.latent_dim_pi = self.latent_dim_vf = hidden[-1]
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("deviation", torch.as_tensor(deviation))
        self._mirror, self.size = _tensors(mirror), len(mirror[0])
        self.actor, self.critic = (
            nn.Sequential(*(layer for sizes in pairwise((inputs, *hidden)) for layer in (nn.Linear(*sizes), nn.GELU())))
            for inputs in (self.size, len(mean))
        )

    def forward_actor(self, observation: Tensor) -> Tensor:
        seen = observation[:, : self.size]
        latent: Tensor = self.actor(self._normalised(torch.stack([seen, mirrored(seen, self._mirror)], dim=1)))
        return latent

    def forward_critic(self, observation: Tensor) -> Tensor:
        latent: Tensor = self.critic(self._normalised(observation))
        return latent

    def _normalised(self, values: Tensor) -> Tensor:
        size = values.shape[-1]
        scaled = (values - self.mean[:size]) / self.deviation[:size]
        return torch.clamp(scaled, -OBSERVATION_CLIP, OBSERVATION_CLIP)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(observation), self.forward_critic(observation)


class TeacherPolicy(ActorCriticPolicy):
    """An actor and a critic with an optimizer of two learning rates. mean, deviation (n,): of the observations;
    mirrors: of the teacher's observations and actions.
    """

    mlp_extractor: Networks  # type: ignore[assignment]  # any module with these methods
    action_net: SymmetricAction  # type: ignore[assignment]

    def __init__(
        self,
        *arguments: Any,
        hidden: tuple[int, ...],
        mean: Single,
        deviation: Single,
        mirrors: tuple[Permutation, Permutation],
        critic_learning_rate: float,
        **settings: Any,
    ) -> None:
        self._hidden, self._critic_learning_rate, self._mirrors = hidden, critic_learning_rate, mirrors
        self._scales = mean, deviation
        super().__init__(*arguments, **settings)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = Networks(self._hidden, *self._scales, self._mirrors[0])

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = SymmetricAction(self._hidden[-1], self._mirrors[1])
        critic = [*self.mlp_extractor.critic.parameters(), *self.value_net.parameters()]
        actor: dict[str, Any] = {"params": [*self.actor_parameters, self.log_std]}
        groups = [actor, {"params": critic, "lr": self._critic_learning_rate}]
        self.optimizer = torch.optim.Adam(groups, lr=lr_schedule(1), eps=1e-5)

    @property
    def actor_parameters(self) -> list[nn.Parameter]:
        """Parameters of the mean action."""
        return [*self.mlp_extractor.actor.parameters(), *self.action_net.parameters()]

    @property
    def actor_layers(self) -> list[nn.Linear]:
        """The actor's linear layers, first to last."""
        return [*(layer for layer in self.mlp_extractor.actor if isinstance(layer, nn.Linear)), self.action_net]

    def mean_action(self, observation: Tensor) -> Tensor:
        """Return the actions (B, N) without exploration."""
        action: Tensor = self.action_net(self.mlp_extractor.forward_actor(observation))
        return action


class TeacherPPO(PPO):
    """PPO whose optimizer keeps its learning rates."""

    policy: TeacherPolicy

    def _update_learning_rate(self, optimizers: Any) -> None:
        pass


def teacher_model(policy: TeacherPolicy, robot: Robot, facts: dict[str, Any], rate: float) -> PolicyModel:
    """Return the actor as a policy: an MLP over one observation of the teacher, `rate` times a second. facts: of its
    training.
    """
    layers, networks = policy.actor_layers, policy.mlp_extractor
    size = networks.size
    weights = {
        f"layers.{index}.{name}": values.detach().numpy().copy()
        for index, layer in enumerate(layers)
        for name, values in layer.named_parameters()
    }
    scales = {
        "observation_mean": networks.mean[:size].numpy().copy(),
        "observation_std": networks.deviation[:size].numpy().copy(),
        "action_mean": robot.stand_pose.astype(np.float32),
        "action_scale": np.full(len(robot.joints), ACTION_UNIT, np.float32),
    }
    hidden = tuple(layer.out_features for layer in layers[:-1])
    config = MLPConfig(observation=size, action=len(robot.joints), window=1, hidden=hidden)
    card = card_for_robot(robot, config, control_rate=rate, observation_clip=OBSERVATION_CLIP, training=facts)
    return PolicyModel(card, weights, scales, exported_step(config))


def load_actor(policy: TeacherPolicy, teacher: PolicyModel) -> None:
    """Give the actor the weights and the scales of a teacher of its sizes."""
    networks, size = policy.mlp_extractor, policy.mlp_extractor.size
    with torch.no_grad():
        for index, layer in enumerate(policy.actor_layers):
            for name, values in layer.named_parameters():
                values.copy_(torch.as_tensor(teacher.weights[f"layers.{index}.{name}"]))
        networks.mean[:size] = torch.as_tensor(teacher.scales["observation_mean"])
        networks.deviation[:size] = torch.as_tensor(teacher.scales["observation_std"])
