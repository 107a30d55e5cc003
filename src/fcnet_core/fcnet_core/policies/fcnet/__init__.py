"""The Fourier Controller Network: causal spectral convolutions over a sliding window, run as a sliding DFT."""

from __future__ import annotations

from fcnet_core.policies import Layers, PolicyConfig, PolicyType, Size


class FCNetConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network: the defaults are the legged configuration of the paper (787,852 parameters).

    In the paper's symbols: observation d_s, action d_a, layers L, modes m, hidden d_h, window n.
    Raises ValueError when `modes` exceeds (window + 1) // 2: a real window of n samples has no more distinct modes,
    and at even n the mode n / 2 would count twice.
    """

    observation: Size = 70
    action: Size = 12
    layers: Layers = 4
    modes: Size = 10
    hidden: Size = 256
    decoder_hidden: Size = 128
    window: Size = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.modes > (self.window + 1) // 2:
            raise ValueError(
                f"{self.modes} modes do not fit a window of {self.window} steps; use at most {(self.window + 1) // 2}"
            )

    @property
    def memory_steps(self) -> int:
        """Every layer's window reaches back."""
        return self.layers * (self.window - 1)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every weight under its published name: encoder fc0, fourier_layers, decoder fc1 and fc2.

        csc.weights is indexed [input mode, output mode, channel, real or imaginary part].
        """
        d = self.hidden
        shapes: dict[str, tuple[int, ...]] = {"fc0.weight": (d, self.observation), "fc0.bias": (d,)}
        for layer in range(self.layers):
            prefix = f"fourier_layers.{layer}."
            shapes[prefix + "csc.weights"] = (self.modes, self.modes, d, 2)
            for linear in ("ffn.fc1", "ffn.fc2"):
                shapes |= {f"{prefix}{linear}.weight": (d, d), f"{prefix}{linear}.bias": (d,)}
            for norm in ("ln1", "ln2"):
                shapes |= {f"{prefix}{norm}.weight": (d,), f"{prefix}{norm}.bias": (d,)}
        shapes |= {"fc1.weight": (self.decoder_hidden, d), "fc1.bias": (self.decoder_hidden,)}
        shapes |= {"fc2.weight": (self.action, self.decoder_hidden), "fc2.bias": (self.action,)}
        return shapes


POLICY = PolicyType(
    package=__name__,
    config=FCNetConfig,
    network="network:FourierControllerNetwork",
    step="step:Step",
    sequence="step:Sequence",
    numba="numba_step:numba_step",
    onnx="step:add_to_graph",
)
