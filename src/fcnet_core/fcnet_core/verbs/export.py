"""fcnet export: a policy as an ONNX file, or with weights in half precision."""

from __future__ import annotations

import argparse
import json
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import FcnetError
from fcnet_core.files import Count, check_writable, option, write_whole
from fcnet_core.model_file import PolicyModel, load_model, save_model
from fcnet_core.policy import Policy, load_policy

SUMMARY = "write a policy as an ONNX file that other programs can run, or with smaller weights"
EPILOG = """
The graph is one control step of standard operators (opset 20) for any number of robots. It takes the raw observation,
returns joint position targets [rad], and leaves its memory to the caller: the documentation string of the graph says
what goes where, and it is all zeros at the start. The policy's card is in the file's metadata entry `fcnet`. Before it
is written, the graph is run against the NumPy runtime.

With --weights fp16 the policy is written with its matrices rounded to half precision: half the size, and a compiled
step takes two thirds of the time. It walks in simulation beside the original first, for about a quarter of an hour, and
is not written where it falls more often or earns less.

examples:
  fcnet export models/aliengo.safetensors --onnx aliengo.onnx
  fcnet export models/aliengo.safetensors --weights fp16 --out aliengo-fp16.safetensors
"""
COMPARISONS = "fcnet.comparisons"  # entry points: (model before, model after, episodes) -> what is worse, in sentences
TOLERANCE = 2e-6  # root mean square; the largest difference may be rounding: it grows where a layer's input cancels out
STEPS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a policy: a file (.safetensors), a run, a name")
    parser.add_argument("--onnx", type=Path, metavar="FILE", help="the ONNX file to write")
    parser.add_argument("--weights", choices=("fp16",), help="write a policy file with matrices in half precision")
    parser.add_argument("--out", type=Path, metavar="FILE", help="of --weights: the policy file to write")
    parser.add_argument(
        "--episodes", type=option(Count), default=100, metavar="N", help="of --weights: of a scenario (default: 100)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Export; 0 when the file is written."""
    if (args.onnx is None) == (args.weights is None) or (args.weights is None) != (args.out is None):
        raise FcnetError("say what to write: --onnx FILE, or --weights fp16 --out FILE")
    if args.onnx:
        facts, sentence = _export_onnx(args.model, args.onnx)
    else:
        facts, sentence = _export_half(args.model, args.out, args.episodes)
    print(json.dumps(facts) if args.json else sentence)
    return 0


def _export_onnx(source: Path, target: Path) -> tuple[dict[str, Any], str]:
    check_writable(target)
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


def _export_half(source: Path, target: Path, episodes: int) -> tuple[dict[str, Any], str]:
    check_writable(target)
    model = load_model(source)
    if model.half:
        raise FcnetError(f"the weights of {source} are in half precision already")
    comparisons = list(entry_points(group=COMPARISONS))
    if not comparisons:
        raise FcnetError(
            "half precision is for a policy that walks no worse with it, which quadruped_sim measures; install it"
        )
    half = model.in_half_precision()
    for comparison in comparisons:
        if worse := comparison.load()(model, half, episodes):
            raise FcnetError(f"with weights in half precision {'; '.join(worse)}: nothing was written")
    save_model(half, target)
    difference = float(np.max(differences(model, load_policy(half, "numpy"), load_policy(model, "numpy"))))
    facts = {"policy": str(target), "fingerprint": half.fingerprint, "largest_difference": difference}
    return (
        facts,
        f"wrote {target}; it walks no worse, and over {STEPS} steps its targets differ by {difference:.1e} at most",
    )


def differences(model: PolicyModel, one: Policy, other: Policy) -> Array:
    """Differences (STEPS, actions) of two runtimes over random observations, relative to actions above 1 rad."""
    rng, units = np.random.default_rng(0), model.normalisation.scales
    found = []
    for _ in range(STEPS):
        noise = rng.standard_normal(model.card.config.observation).astype(np.float32)
        observation = units["observation_mean"] + units["observation_std"] * noise
        action, reference = one.step(observation), other.step(observation)
        found.append(np.abs(action - reference) / np.maximum(1.0, np.abs(reference)))
    return np.array(found, dtype=np.float64)
