"""The interface of a policy's torch module: whole sequences in parallel, single steps, and one memory for both.

The memory of B robots is a State. Its entries are zero after a reset and of two kinds: an array (B, ...) that every
step replaces, or a ring (N, B, ...) of past rows, oldest first. A step may read any row of a ring and returns one new
row (B, ...), which is appended. The caller of a step keeps the rings (`advanced`), so an exported step does not copy
them.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.policies import policy_type

State = dict[str, Tensor]


class PolicyNetwork(nn.Module):
    """A policy as a torch module; float64 works as well as float32."""

    def cold(self, batch: int) -> State:
        """Return the memory of `batch` robots after a reset."""
        raise NotImplementedError

    def forward(self, observation: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return normalised actions (B, T, action) and the new memory for normalised observations (B, T, observation).

        Causal, for any T >= 1; continues from `state`, None after a reset.
        """
        raise NotImplementedError

    def actions(self, observation: Tensor) -> Tensor:
        """Return the actions of `forward` after a reset; a network whose memory costs time leaves it out here."""
        return self(observation)[0]

    def step(self, observation: Tensor, state: State) -> tuple[Tensor, State]:
        """Return normalised actions (B, action), and what replaces or follows each entry of the memory, for normalised
        observations (B, observation).
        """
        raise NotImplementedError

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros with type and device of the weights."""
        return next(self.parameters()).new_zeros(shape)


def load_network(source: str | Path | PolicyModel) -> PolicyNetwork:
    """Load the network of a policy with its weights, float32, in evaluation mode. source: as in load_policy.

    It maps normalised observations to normalised actions: `load_model(source).normalisation` has `input` and `action`
    to convert both. Raises FcnetError as load_model.

    >>> network, scaling = load_network("aliengo"), load_model("aliengo").normalisation
    >>> seen = torch.from_numpy(scaling.input(np.zeros((1, 50, 70), np.float32)))
    >>> output, state = network(seen)  # (B, T, action), and the memory after the sequence
    >>> scaling.action(output.detach().numpy()).shape  # [rad]
    (1, 50, 12)
    """
    model = source if isinstance(source, PolicyModel) else load_model(source)
    kind = policy_type(model.card.policy_type)
    network: PolicyNetwork = kind.part(kind.network)(model.card.config)
    network.load_state_dict({name: torch.tensor(weight) for name, weight in model.weights.items()})
    return network.eval()


def advanced(state: State, written: State) -> State:
    """Return the memory after a step that returned `written`: rings lose their oldest row."""
    return {
        name: written[name] if written[name].dim() == array.dim() else torch.cat([array[1:], written[name][None]])
        for name, array in state.items()
    }


def ring_of(rows: Tensor, size: int) -> Tensor:
    """Return the last `size` of rows (B, T, ...) as a ring (size, B, ...), filled up with zeros at its old end."""
    last = rows[:, max(rows.shape[1] - size, 0) :].transpose(0, 1)
    return pad(last, (0, 0) * (last.dim() - 1) + (size - last.shape[0], 0))


class StackedNetwork(PolicyNetwork):
    """A policy without recurrence: a subclass computes actions (N, action) from stacked observations (N, window *
    observation), oldest first, by `act`. Observations before a reset are zero, the mean.
    """

    def __init__(self, window: int, observation: int) -> None:
        super().__init__()
        self._window, self._observation = window, observation

    def act(self, stacked: Tensor) -> Tensor:
        """Return actions (N, action) for stacked observations (N, window * observation)."""
        raise NotImplementedError

    def cold(self, batch: int) -> State:
        if self._window == 1:
            return {}
        return {"window": self.zeros(self._window - 1, batch, self._observation)}

    def forward(self, observation: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        past = self._window - 1
        if state:
            seen = torch.cat([state["window"].transpose(0, 1).to(observation), observation], dim=1)
        else:
            seen = pad(observation, (0, 0, past, 0))
        stacked = seen.unfold(1, self._window, 1).transpose(2, 3).flatten(2)  # (B, T, window * observation)
        output = self.act(stacked.flatten(0, 1)).unflatten(0, stacked.shape[:2])
        return output, {"window": ring_of(seen, past)} if past else {}

    def step(self, observation: Tensor, state: State) -> tuple[Tensor, State]:
        if not state:
            return self.act(observation), {}
        seen = torch.cat([state["window"], observation[None]]).transpose(0, 1)
        return self.act(seen.flatten(1)), {"window": observation}
