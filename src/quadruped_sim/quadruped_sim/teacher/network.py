"""The teacher's networks for stable-baselines3, and the actor as a policy file."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from fcnet_core.arrays import Single
from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.policies.export import exported_step
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.robot import Robot
from quadruped_sim.teacher.expert import ACTION_UNIT
from quadruped_sim.teacher.symmetry import Permutation

OBSERVATION_CLIP = 6.0  # [standard deviations]


class Mirror(nn.Module):
    """Mirror image of a teacher's observations or actions (B, n), see teacher.symmetry."""

    source: Tensor
    sign: Tensor

    def __init__(self, permutation: Permutation) -> None:
        super().__init__()
        source, sign = permutation
        self.register_buffer("source", torch.as_tensor(source), persistent=False)
        self.register_buffer("sign", torch.as_tensor(sign, dtype=torch.float32), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        return values[:, self.source] * self.sign


class Normalised(BaseFeaturesExtractor):
    """The critic's observations, and behind them the mirrored robots' as the teacher sees them, in standard deviations
    from their mean. mirror: of the teacher's observations.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, space: Any, mean: Single, deviation: Single, mirror: Permutation) -> None:
        self._size = len(mirror[0])
        super().__init__(space, len(mean) + self._size)
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("deviation", torch.as_tensor(deviation))
        self._mirror = Mirror(mirror)

    def forward(self, observation: Tensor) -> Tensor:
        size = self._size
        image = self._mirror(observation[:, :size])
        off = observation - self.mean, image - self.mean[:size]
        scaled = torch.cat([off[0] / self.deviation, off[1] / self.deviation[:size]], dim=1)
        return torch.clamp(scaled, -OBSERVATION_CLIP, OBSERVATION_CLIP)


class SymmetricAction(nn.Linear):
    """The actor's last layer: actions (B, N), the mean of the robots' own and of the mirrored robots', mirrored, from
    latents (B, 2, hidden) of both.
    """

    def __init__(self, hidden: int, mirror: Permutation) -> None:
        super().__init__(hidden, len(mirror[0]))
        self._mirror = Mirror(mirror)

    def forward(self, latent: Tensor) -> Tensor:
        own, image = super().forward(latent).unbind(1)
        return (own + self._mirror(image)) / 2


class Networks(nn.Module):
    """Actor and critic up to their last layers, with the interface of stable-baselines3's MlpExtractor. The actor sees
    only the teacher's part of the observation, of the robots and of their mirror images.
    """

    def __init__(self, hidden: tuple[int, ...], actor: int, critic: int) -> None:
        super().__init__()
        self.latent_dim_pi = self.latent_dim_vf = hidden[-1]
        self._sizes = actor, critic
        self.actor, self.critic = (
            nn.Sequential(*(layer for sizes in pairwise((inputs, *hidden)) for layer in (nn.Linear(*sizes), nn.GELU())))
            for inputs in self._sizes
        )

    def forward_actor(self, features: Tensor) -> Tensor:
        actor, critic = self._sizes
        latent: Tensor = self.actor(torch.stack([features[:, :actor], features[:, critic:]], dim=1))
        return latent

    def forward_critic(self, features: Tensor) -> Tensor:
        latent: Tensor = self.critic(features[:, : self._sizes[1]])
        return latent

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(features), self.forward_critic(features)


class TeacherPolicy(ActorCriticPolicy):
    """An actor and a critic with an optimizer of two learning rates."""

    mlp_extractor: Networks  # type: ignore[assignment]  # any module with these methods
    features_extractor: Normalised
    action_net: SymmetricAction  # type: ignore[assignment]

    def __init__(
        self,
        *arguments: Any,
        hidden: tuple[int, ...],
        action_mirror: Permutation,
        critic_learning_rate: float,
        **settings: Any,
    ) -> None:
        self._hidden, self._critic_learning_rate, self._action_mirror = hidden, critic_learning_rate, action_mirror
        super().__init__(*arguments, **settings)

    def _build_mlp_extractor(self) -> None:
        critic = len(self.features_extractor.mean)
        self.mlp_extractor = Networks(self._hidden, self.features_dim - critic, critic)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = SymmetricAction(self._hidden[-1], self._action_mirror)
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
        action: Tensor = self.action_net(self.mlp_extractor.forward_actor(self.features_extractor(observation)))
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
    layers, normalised = policy.actor_layers, policy.features_extractor
    size = layers[0].in_features
    weights = {
        f"layers.{index}.{name}": values.detach().numpy().copy()
        for index, layer in enumerate(layers)
        for name, values in layer.named_parameters()
    }
    scales = {
        "observation_mean": normalised.mean[:size].numpy().copy(),
        "observation_std": normalised.deviation[:size].numpy().copy(),
        "action_mean": robot.stand_pose.astype(np.float32),
        "action_scale": np.full(len(robot.joints), ACTION_UNIT, np.float32),
    }
    hidden = tuple(layer.out_features for layer in layers[:-1])
    config = MLPConfig(observation=size, action=len(robot.joints), window=1, hidden=hidden)
    card = card_for_robot(robot, config, control_rate=rate, observation_clip=OBSERVATION_CLIP, training=facts)
    return PolicyModel(card, weights, scales, exported_step(config))


def load_actor(policy: TeacherPolicy, teacher: PolicyModel) -> None:
    """Give the actor the weights and the scales of a teacher of its sizes."""
    normalised, size = policy.features_extractor, policy.actor_layers[0].in_features
    with torch.no_grad():
        for index, layer in enumerate(policy.actor_layers):
            for name, values in layer.named_parameters():
                values.copy_(torch.as_tensor(teacher.weights[f"layers.{index}.{name}"]))
        normalised.mean[:size] = torch.as_tensor(teacher.scales["observation_mean"])
        normalised.deviation[:size] = torch.as_tensor(teacher.scales["observation_std"])
