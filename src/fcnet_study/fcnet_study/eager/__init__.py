"""Control steps in eager PyTorch, float32, one robot: what the suite's runtimes are measured against."""

from __future__ import annotations

from collections.abc import Callable

from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import Policy
from fcnet_study.eager.fcnet import FastestStep, PublishedStep
from fcnet_study.eager.peers import PerceptronStep, RetNetStep, TransformerStep

# By policy type; the first is the reference of ratios.
EAGER: dict[str, dict[str, Callable[[PolicyModel], Policy]]] = {
    "fcnet": {"published eager": PublishedStep, "fastest eager": FastestStep},
    "transformer": {"eager": TransformerStep},
    "retnet": {"eager": RetNetStep},
    "mlp": {"eager": PerceptronStep},
}
