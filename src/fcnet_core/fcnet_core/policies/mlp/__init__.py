"""A multilayer perceptron over a window of stacked observations: behaviour cloning without a recurrent state."""

from fcnet_core.policies.mlp.config import MLPConfig
from fcnet_core.policies.registry import PolicyType

POLICY = PolicyType(
    package=__name__,
    config=MLPConfig,
    network="network:WindowPerceptron",
    runtimes={"numba": "numba_step:NumbaStep", "numpy": "numpy_step:NumpyStep", "onnx": "onnx:OnnxStep"},
    batch="numpy_step:BatchedStep",
    sequence="numpy_step:Sequence",
    onnx_graph="onnx:onnx_graph",
)
