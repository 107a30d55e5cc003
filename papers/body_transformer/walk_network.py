"""Actor and critic of the A1-Walk task for stable-baselines3, and PPO with the adaptive learning rate of rsl_rl."""

from typing import Any, Literal

import numpy as np
import torch
from msgspec.structs import replace
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn
from torch.nn.functional import relu

from fcnet_core.learning.config import Precision
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from fcnet_core.policies.body_transformer.graph import BodyGraph, Node
from fcnet_core.policies.body_transformer.network import BodyTransformer, Tokenizer
from fcnet_core.policies.network import StackedNetwork
from fcnet_core.robot import LEG_JOINTS
from quadruped_sim.tasks.task import load_task

TASK = load_task("a1_walk")
INTERFACE = TASK.policy_interface(TASK.driven())
OBSERVATION = INTERFACE.spec["observation"]
PARAMETER_DEVIATION = 0.02  # initial standard deviation of a layer's weights
PERCEPTRON_WIDTH = 150  # as for the paper's humanoids: within 5 % of a Body Transformer's parameters
RATE_FACTOR, RATES = 1.5, (1e-5, 1e-2)
Architecture = Literal["mix", "hard", "dense", "mlp"]


class TokenPerceptron(StackedNetwork):
    """The perceptron of the paper's comparison: over all tokens, then one linear layer to the action."""

    def __init__(self, config: BodyTransformerConfig) -> None:
        super().__init__(config.window, config.observation)
        size = len(config.graph.nodes) * config.hidden
        self.tokenizer = Tokenizer(config)
        sizes = ((size, config.ffn_width), (config.ffn_width, config.ffn_width), (config.ffn_width, size))
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in sizes)
        self.detokenizer = nn.Linear(size, config.action)

    def act(self, stacked: Tensor) -> Tensor:
        first, second, third = self.layers
        x = third(relu(second(relu(first(self.tokenizer(stacked).flatten(1))))))
        output: Tensor = self.detokenizer(x)
        return output


def walk_graph() -> BodyGraph:
    """Return the authors' graph: a joint's node has its position, velocity and last action, the root the rest."""
    seen = OBSERVATION.slices()
    root, starts = list(range(seen["joint_position"].start)), [seen[name].start for name in OBSERVATION.parts][-3:]
    names = [joint.removesuffix("_joint") for joint in INTERFACE.joints]
    joints = [Node(name, tuple(start + joint for start in starts), (joint,)) for joint, name in enumerate(names)]
    before = ["root" if name.endswith(LEG_JOINTS[0]) else names[place - 1] for place, name in enumerate(names)]
    return BodyGraph((Node("root", tuple(root)), *joints), tuple(zip(before, names, strict=True)))


def actor_config(architecture: Architecture) -> BodyTransformerConfig:
    """Return the sizes in the authors' code: d 64, 2 heads, MLPs of 128, 8 layers, position vectors, one time step."""
    sizes: dict[str, Any] = {"observation": OBSERVATION.shape[0], "action": len(INTERFACE.joints)}
    sizes |= {"graph": walk_graph(), "window": 1}
    if architecture == "mlp":
        return BodyTransformerConfig(**sizes, ffn_width=PERCEPTRON_WIDTH, positions=False)
    return BodyTransformerConfig(**sizes, mask=architecture)


def critic_config(architecture: Architecture) -> BodyTransformerConfig:
    """Return the actor's with one output a node, whose mean is the value; a perceptron has one output."""
    config = actor_config(architecture)
    outputs = 1 if architecture == "mlp" else len(config.graph.nodes)
    nodes = [replace(node, action=(k,) if k < outputs else ()) for k, node in enumerate(config.graph.nodes)]
    return replace(config, graph=BodyGraph(tuple(nodes), config.graph.edges), action=outputs)


def new_network(architecture: Architecture, config: BodyTransformerConfig) -> BodyTransformer | TokenPerceptron:
    """Return a network with the authors' initial weights, except that each layer is drawn separately, not copied."""
    network = TokenPerceptron(config) if architecture == "mlp" else BodyTransformer(config)
    for name, module in network.layers.named_modules():
        if isinstance(module, nn.Linear) and not name.endswith("qkv"):
            nn.init.normal_(module.weight, std=PARAMETER_DEVIATION)
            nn.init.zeros_(module.bias)
    return network


class Networks(nn.Module):
    """Mean actions, within -1 and 1, and values; replaces stable-baselines3's MlpExtractor.

    precision: of matrix products; weights, actions and values are always float32.
    """

    def __init__(self, architecture: Architecture, precision: Precision = "float32") -> None:
        super().__init__()
        self.actor = new_network(architecture, actor_config(architecture))
        self.critic = new_network(architecture, critic_config(architecture))
        self._precision = precision

    def forward_actor(self, observation: Tensor) -> Tensor:
        """Return mean actions (B, 12)."""
        return torch.tanh(self._outputs(self.actor, observation))

    def forward_critic(self, observation: Tensor) -> Tensor:
        """Return values (B, 1)."""
        return self._outputs(self.critic, observation).mean(-1, keepdim=True)

    def _outputs(self, network: StackedNetwork, observation: Tensor) -> Tensor:
        with torch.autocast(observation.device.type, torch.bfloat16, enabled=self._precision == "bfloat16"):
            outputs: Tensor = network.act(observation)
        return outputs.float()

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean actions (B, 12) and values (B, 1)."""
        return self.forward_actor(observation), self.forward_critic(observation)


class WalkPolicy(ActorCriticPolicy):
    """Actor and critic with separate learning rates; a learned standard deviation a joint, initially `deviation`."""

    mlp_extractor: Networks  # type: ignore[assignment]  # any module with these methods

    def __init__(
        self,
        *arguments: Any,
        architecture: Architecture,
        deviation: float,
        critic_learning_rate: float,
        precision: Precision,
        **settings: Any,
    ) -> None:
        self._architecture, self._deviation, self._precision = architecture, deviation, precision
        self._critic_learning_rate = critic_learning_rate
        super().__init__(*arguments, **settings)

    def _build(self, lr_schedule: Any) -> None:
        self.mlp_extractor = Networks(self._architecture, self._precision)
        self.action_net, self.value_net = nn.Identity(), nn.Identity()  # type: ignore[assignment]  # are in Networks
        self.log_std = nn.Parameter(torch.full(self.action_space.shape or (), np.log(self._deviation)))
        actor: dict[str, Any] = {"params": [*self.mlp_extractor.actor.parameters(), self.log_std]}
        critic = {"params": [*self.mlp_extractor.critic.parameters()], "lr": self._critic_learning_rate}
        self.optimizer = torch.optim.Adam([actor, critic], lr=lr_schedule(1))


class WalkPPO(PPO):
    """PPO whose actor's learning rate keeps the KL divergence of an update within target_kl / 4 to target_kl.

    As in rsl_rl, but once an update, with the divergence at its end, and not for the critic, which would learn little
    at the rates that small batches lead to. An update beyond 1.5 target_kl is cut short.
    """

    policy: WalkPolicy

    def _update_learning_rate(self, optimizers: Any) -> None:
        divergence, most = self.logger.name_to_value.get("train/approx_kl"), self.target_kl
        if divergence is None or most is None:  # the first update
            return
        actor, _ = optimizers.param_groups
        factor = RATE_FACTOR if divergence < most / 4 else 1 / RATE_FACTOR if divergence > most else 1.0
        actor["lr"] = float(np.clip(actor["lr"] * factor, *RATES))
