"""The Fourier Controller Network: causal spectral convolutions over a sliding window, run as a sliding DFT."""

from fcnet_core.policies import Layers, PolicyConfig, PolicyType, Shapes, Size, weights_and_biases


class FCNetConfig(PolicyConfig, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network: the defaults are the legged configuration of the paper (787,852 parameters).

    In the paper's symbols: observation d_s, action d_a, layers L, modes m, hidden d_h, window n.
    Raises ValueError if `modes` exceeds (window + 1) // 2: a real window of n samples has no more distinct modes,
    and at even n the mode n / 2 would count twice.
    """

    layers: Layers = 4
    modes: Size = 10
    hidden: Size = 256
    decoder_hidden: Size = 128
    window: Size = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.modes > (most := (self.window + 1) // 2):
            raise ValueError(f"{self.modes} modes do not fit a window of {self.window} steps; use at most {most}")

    @property
    def memory_steps(self) -> int:
        """The windows of all layers, without the present step."""
        return self.layers * (self.window - 1)

    def weight_shapes(self) -> Shapes:
        """Return the shape of every weight by its published name: encoder fc0, fourier_layers, decoder fc1 and fc2.

        csc.weights is indexed [input mode, output mode, channel, real or imaginary part].
        """
        d = self.hidden
        shapes = weights_and_biases({"fc0": (d, self.observation)})
        for layer in range(self.layers):
            prefix = f"fourier_layers.{layer}."
            shapes[prefix + "csc.weights"] = (self.modes, self.modes, d, 2)
            sizes: Shapes = {"ffn.fc1": (d, d), "ffn.fc2": (d, d), "ln1": (d,), "ln2": (d,)}
            shapes |= weights_and_biases({prefix + name: shape for name, shape in sizes.items()})
        return shapes | weights_and_biases({"fc1": (self.decoder_hidden, d), "fc2": (self.action, self.decoder_hidden)})


NETWORK, NUMBA = "network:FourierControllerNetwork", "numba_step:numba_step"
POLICY = PolicyType(__name__, FCNetConfig, NETWORK, NUMBA, exports_sequences=True)
