"""fcnet export: a policy as an ONNX file, or with weights in half precision."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.files import check_writable, write_whole
from fcnet_core.model_file import PolicyModel, load_model, save_model
from fcnet_core.policy import Policy, load_policy
from fcnet_core.verbs import STDOUT, add_json, add_model, check_json, write_json

SUMMARY = "write a policy as an ONNX file for other programs, or with weights in half precision"
EPILOG = """
The ONNX graph is one control step of standard operators (opset 20) for any number of robots. Inputs are the raw
observation and the memory, outputs the joint position targets [rad] and the next memory. The graph's documentation
string lists them; the memory is all zeros after a reset. The policy's card is in the metadata entry `fcnet`. The graph
is compared with the NumPy runtime before it is written.

--weights fp16 writes a policy file with its matrices rounded to half precision: half the size, and a compiled step
takes two thirds of the time. Evaluate it before you use it: fcnet evaluate FILE

examples:
  fcnet export models/aliengo.safetensors --onnx aliengo.onnx
  fcnet export models/aliengo.safetensors --weights fp16 -o aliengo-fp16.safetensors
"""
TOLERANCE = 2e-6  # root mean square; the largest difference may be rounding: it grows if a layer's input cancels out
STEPS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_model(parser)
    parser.add_argument("--onnx", type=Path, metavar="FILE", help="the ONNX file to write")
    parser.add_argument("--weights", choices=("fp16",), help="write a policy file with matrices in half precision")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="with --weights: the policy file to write")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Export; return 0."""
    if (args.onnx is None) == (args.weights is None) or (args.weights is None) != (args.out is None):
        raise FcnetError("say what to write: --onnx FILE, or --weights fp16 --out FILE")
    check_writable(args.onnx, args.out)
    check_json(args.json)
    facts, sentence = _export_onnx(args.model, args.onnx) if args.onnx else _export_half(args.model, args.out)
    write_json(facts, args.json)
    if args.json != STDOUT:
        print(sentence)
    return 0


def _export_onnx(source: str, target: Path) -> tuple[dict[str, Any], str]:
    model = load_model(source)
    for library in ("onnx", "onnxruntime"):
        if find_spec(library) is None:
            raise FcnetError(f"exporting needs the Python package {library}; `sh tools/setup.sh test` installs it")
    different = differences(model, load_policy(model, "onnx"), load_policy(model, "numpy"))
    mean, largest = float(np.sqrt(np.mean(different**2))), float(np.max(different))
    if mean > TOLERANCE:
        raise FcnetError(
            f"the ONNX graph differs from the NumPy runtime by {mean:.1e} (root mean square), allowed are "
            f"{TOLERANCE:.0e}; nothing was written, please report this model"
        )
    from fcnet_core.policies.onnx_graph import onnx_graph

    write_whole(target, onnx_graph(model)[0].SerializeToString())
    facts = {"onnx": str(target), "fingerprint": model.fingerprint, "largest_difference": largest}
    return facts, (
        f"wrote {target}; over {STEPS} steps it differs from the NumPy runtime by {mean:.1e} (root mean square), by "
        f"{largest:.1e} at most"
    )


def _export_half(source: str, target: Path) -> tuple[dict[str, Any], str]:
    model = load_model(source)
    if model.half:
        raise FcnetError(f"the weights of {source} are already in half precision")
    half = model.in_half_precision()
    save_model(half, target)
    difference = float(np.max(differences(model, load_policy(half, "numpy"), load_policy(model, "numpy"))))
    facts = {"policy": str(target), "fingerprint": half.fingerprint, "largest_difference": difference}
    return facts, f"wrote {target}; over {STEPS} steps its targets differ by {difference:.1e} at most"


def differences(model: PolicyModel, one: Policy, other: Policy) -> Array:
    """Return the differences (STEPS, actions) of two policies on random observations, relative for actions above 1."""
    rng, units = np.random.default_rng(0), model.normalisation.scales
    found = []
    for _ in range(STEPS):
        noise = rng.standard_normal(model.card.config.observation).astype(np.float32)
        observation = units["observation_mean"] + units["observation_std"] * noise
        action, reference = one.step(observation), other.step(observation)
        found.append(np.abs(action - reference) / np.maximum(1.0, np.abs(reference)))
    return np.array(found, dtype=np.float64)
