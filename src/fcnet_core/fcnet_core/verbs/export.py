"""fcnet export: a policy as an ONNX file."""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fcnet_core import FcnetError
from fcnet_core.files import check_writable, write_whole
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.policy import Policy, load_policy

SUMMARY = "write a policy as an ONNX file that other programs can run"
EPILOG = """
The graph is one control step of standard operators (opset 20) for any number of robots. It takes the raw observation,
returns joint position targets [rad], and leaves its memory to the caller: the documentation string of the graph says
what goes where, and it is all zeros at the start. The policy's card is in the file's metadata entry `fcnet`. Before it
is written, the graph is run against the NumPy runtime.

example:
  fcnet export models/aliengo.safetensors --onnx aliengo.onnx
"""
TOLERANCE = 2e-6
STEPS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a policy file (.safetensors)")
    parser.add_argument("--onnx", required=True, type=Path, metavar="FILE", help="the ONNX file to write")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Export; 0 when the file is written."""
    check_writable(args.onnx)
    model = load_model(args.model)
    for library in ("onnx", "onnxruntime"):
        if find_spec(library) is None:
            raise FcnetError(f"exporting needs the Python package {library}; `sh tools/setup.sh test` installs it")
    difference = largest_difference(model, load_policy(model, "onnx"), load_policy(model, "numpy"))
    if difference > TOLERANCE:
        raise FcnetError(
            f"the ONNX graph differs from the NumPy runtime by {difference:.1e}, allowed are {TOLERANCE:.0e}; "
            "nothing was written, please report this model"
        )
    from fcnet_core.policies.onnx_graph import onnx_graph

    write_whole(args.onnx, onnx_graph(model)[0].SerializeToString())
    if args.json:
        facts = {"onnx": str(args.onnx), "fingerprint": model.fingerprint, "largest_difference": difference}
        print(json.dumps(facts))
    else:
        print(f"wrote {args.onnx}; over {STEPS} steps it agrees with the NumPy runtime within {difference:.1e}")
    return 0


def largest_difference(model: PolicyModel, one: Policy, other: Policy) -> float:
    """Largest difference between two runtimes' actions over random observations, relative to actions above 1 rad."""
    rng, units = np.random.default_rng(0), model.normalisation.scales
    differences = []
    for _ in range(STEPS):
        noise = rng.standard_normal(model.card.config.observation).astype(np.float32)
        observation = units["observation_mean"] + units["observation_std"] * noise
        action, reference = one.step(observation), other.step(observation)
        differences.append(np.max(np.abs(action - reference) / np.maximum(1.0, np.abs(reference))))
    return float(np.max(differences))
