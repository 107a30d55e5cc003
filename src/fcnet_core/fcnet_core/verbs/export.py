"""fcnet export: a policy as an ONNX file, with weights in half precision, or in the present file format."""

from __future__ import annotations

import argparse
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.errors import FcnetError
from fcnet_core.files import check_writable, write_whole
from fcnet_core.model_file import METADATA_ENTRY, PolicyModel, card_to_json, load_model, save_model
from fcnet_core.policy import load_policy
from fcnet_core.verbs import STDOUT, add_json, add_model, check_json, write_json

SUMMARY = "convert a policy to an ONNX file, to half-precision weights, or to file format 2"
EPILOG = """
The ONNX graph computes one control step for any number of robots, with standard operators only (opset 20). The inputs
are the raw observation and the memory. The outputs are the joint position targets [rad] and the new entries of the
memory. The graph's documentation string lists them; the memory is all zeros after a reset. The policy's card is in the
metadata entry `fcnet`. The graph was compared with the network when it was exported.

--format 2 adds the exported step to a file of format 1. It needs PyTorch; robots and simulators then run the file
without it. The policy's fingerprint does not change.

--weights fp16 writes a policy file with its matrices rounded to half precision: half the size, and a compiled step
takes two thirds of the time. Evaluate it before you use it: fcnet evaluate FILE

examples:
  fcnet export models/aliengo.safetensors --onnx aliengo.onnx
  fcnet export old.safetensors --format 2 -o new.safetensors
  fcnet export models/aliengo.safetensors --weights fp16 -o aliengo-fp16.safetensors
"""
STEPS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_model(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--onnx", type=Path, metavar="FILE", help="the ONNX file to write")
    what.add_argument("--format", choices=("2",), help="write a policy file of this format, with the exported step")
    what.add_argument("--weights", choices=("fp16",), help="write a policy file with matrices in half precision")
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="with --weights and --format: the policy file to write"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Export; return 0."""
    if (args.onnx is None) != (args.out is not None):
        raise FcnetError("--weights and --format need --out FILE, --onnx FILE excludes it")
    check_writable(args.onnx, args.out)
    check_json(args.json)
    model = load_model(args.model)
    if args.onnx:
        facts, sentence = _export_onnx(model, args.onnx)
    elif args.format:
        facts, sentence = _convert(model, args.out)
    else:
        facts, sentence = _export_half(model, args.out)
    write_json(facts, args.json)
    if args.json != STDOUT:
        print(sentence)
    return 0


def _with_step(model: PolicyModel) -> PolicyModel:
    """Export the model's step, if it has none."""
    if model.step:
        return model
    _check_libraries("torch", "onnxscript", "onnxruntime")
    from fcnet_core.policies.export import exported_step

    return replace(model, step=exported_step(model.card.config))


def _check_libraries(*libraries: str) -> None:
    for library in libraries:
        if find_spec(library) is None:
            raise FcnetError(f"exporting needs the Python package {library}; `sh tools/setup.sh test` installs it")


def _export_onnx(model: PolicyModel, target: Path) -> tuple[dict[str, Any], str]:
    _check_libraries("onnx", "onnxruntime")
    model = _with_step(model)
    from fcnet_core.policies.standalone import standalone_graph

    metadata = {METADATA_ENTRY: card_to_json(model.card), "fingerprint": model.fingerprint}
    write_whole(target, standalone_graph(model, metadata))
    return {"onnx": str(target), "fingerprint": model.fingerprint}, f"wrote {target}"


def _convert(model: PolicyModel, target: Path) -> tuple[dict[str, Any], str]:
    model = _with_step(model)
    save_model(model, target)
    return {"policy": str(target), "fingerprint": model.fingerprint}, f"wrote {target} in format 2"


def _export_half(model: PolicyModel, target: Path) -> tuple[dict[str, Any], str]:
    if model.half:
        raise FcnetError("the weights of this policy are already in half precision")
    half = model.in_half_precision()
    save_model(half, target)
    facts: dict[str, Any] = {"policy": str(target), "fingerprint": half.fingerprint}
    facts["largest_difference"] = largest_difference(half, model)
    return facts, f"wrote {target}; over {STEPS} steps its targets differ by {facts['largest_difference']:.1e} at most"


def largest_difference(one: PolicyModel, other: PolicyModel) -> float:
    """Return the largest difference of the actions of two models, on random observations, relative above 1."""
    rng, units, policies = np.random.default_rng(0), one.scales, [load_policy(model) for model in (one, other)]
    largest = 0.0
    for _ in range(STEPS):
        noise = rng.standard_normal(one.card.config.observation).astype(np.float32)
        seen = units["observation_mean"] + units["observation_std"] * noise
        action, reference = (policy.step(seen) for policy in policies)
        largest = max(largest, float((np.abs(action - reference) / np.maximum(1.0, np.abs(reference))).max()))
    return largest
