"""The Fourier Controller Network: causal spectral convolutions over a sliding window, run as a sliding DFT."""

from fcnet_core.policies.fcnet.config import FCNetConfig
from fcnet_core.policies.registry import PolicyType

POLICY = PolicyType(
    package=__name__,
    config=FCNetConfig,
    network="network:FourierControllerNetwork",
    runtimes={"numba": "numba_step:NumbaStep", "numpy": "numpy_step:NumpyStep", "onnx": "onnx:OnnxStep"},
    batch="batched:BatchedStep",
    sequence="batched:Sequence",
    onnx_graph="onnx:onnx_graph",
)
