"""FCNet's published control step in eager PyTorch, float32, one robot, and its duration next to the suite's runtimes.

python -m papers.fcnet.published_step
python -m papers.fcnet.published_step --paced 50 --rounds 8 --steps 30
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear

from fcnet_core.arrays import Single
from fcnet_core.bench import forms, time_forms
from fcnet_core.files import Positive, option
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.policies.fcnet.spectral import inverse_dft_last, phase_table
from papers.shared import pace_of, parser, run, write


class PublishedStep:
    """The paper's code, operation by operation: a batch axis and a time axis of one, a list as ring of inputs, a
    spectrum in complex64. Like that code it multiplies the weights W by the inverse DFT once, at a reset.
    """

    def __init__(self, model: PolicyModel) -> None:
        self._config, self._normalisation = model.card.config, model.normalisation
        self._w = {name: torch.tensor(weight, dtype=torch.float32) for name, weight in model.weights.items()}
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        config = self._config
        phases = phase_table(config.window, config.modes)[:, 0].astype(np.complex64)
        last = torch.from_numpy(inverse_dft_last(config.window, config.modes).astype(np.complex64))
        weights = [torch.view_as_complex(self._w[f"fourier_layers.{i}.csc.weights"]) for i in range(config.layers)]
        self._rotation = torch.from_numpy(phases).reshape(1, -1, 1)
        self._folded = [(weight.permute(2, 0, 1) @ last).permute(1, 0) for weight in weights]
        self._inputs = [[torch.zeros(1, 1, config.hidden) for _ in range(config.window)] for _ in weights]
        self._spectra = [torch.zeros(1, config.modes, config.hidden, dtype=torch.cfloat) for _ in weights]
        self._slot = 0

    @torch.inference_mode()
    def step(self, observation: Single) -> Single:
        """Return the action (action,) for an observation (observation,)."""
        x = self._linear("fc0", torch.from_numpy(self._normalisation.input(observation))[None, None])
        for layer in range(self._config.layers):
            name = f"fourier_layers.{layer}."
            x = gelu(self._convolve(layer, self._layer_norm(name + "ln1", x))) + x
            inner = gelu(self._linear(name + "ffn.fc1", self._layer_norm(name + "ln2", x)))
            x = self._linear(name + "ffn.fc2", inner) + x
        self._slot = (self._slot + 1) % self._config.window
        action: Single = self._normalisation.action(self._linear("fc2", gelu(self._linear("fc1", x)))[0, 0].numpy())
        return action

    def _convolve(self, layer: int, x: Tensor) -> Tensor:
        oldest = self._inputs[layer][self._slot]
        spectrum = self._rotation * (self._spectra[layer] + (x - oldest))
        self._inputs[layer][self._slot], self._spectra[layer] = x, spectrum
        return torch.einsum("btmd,md->btd", spectrum.unsqueeze(1), self._folded[layer]).real

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return linear(x, self._w[name + ".weight"], self._w[name + ".bias"])

    def _layer_norm(self, name: str, x: Tensor) -> Tensor:
        return layer_norm(x, x.shape[-1:], self._w[name + ".weight"], self._w[name + ".bias"])


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, rounds=40, steps=50, figure=False)
    options.add_argument("--paced", type=option(Positive), metavar="HZ", help="step rate; the pauses leave caches cold")
    args, model = options.parse_args(), load_model("aliengo")
    pace = replace(pace_of(args), period=1 / args.paced if args.paced else 0.0)
    write(time_forms(model, {"published eager": PublishedStep(model), **forms(model)}, pace), args.json)


if __name__ == "__main__":
    run(main)
