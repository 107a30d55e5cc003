"""fcnet export: a policy as an ONNX file, with weights in half precision, or in the present file format."""

import argparse
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

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
metadata entry `fcnet`. `fcnet train` created the graph and compared its outputs with those of the PyTorch network.

--format 2 adds this graph to a file of format 1. The conversion needs PyTorch; robots and simulators then run the file
without PyTorch. The policy's fingerprint does not change.

--weights fp16 writes a policy file with its matrices rounded to half precision. The file is half as large, and a
compiled step takes 25 % less time. Evaluate it before you use it: fcnet evaluate FILE

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
    out = "with --weights and --format: the policy file to write"
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=out)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Export; return 0."""
    if (args.onnx is None) != (args.out is not None):
        raise FcnetError("--weights and --format need --out FILE, --onnx FILE excludes it")
    check_writable(args.onnx, args.out)
    check_json(args.json)
    model, target = load_model(args.model), args.onnx or args.out
    facts: dict[str, str | float] = {"onnx" if args.onnx else "policy": str(target)}
    sentence = f"wrote {target}"
    if args.weights:
        if model.half:
            raise FcnetError("the weights of this policy are already in half precision")
        full, model = model, model.in_half_precision()
        facts["largest_difference"] = difference = largest_difference(model, full)
        sentence += f"; over {STEPS} steps its targets differ by {difference:.1e} at most"
    elif not model.step:
        check_libraries("torch", "onnxscript", "onnxruntime")
        from fcnet_core.policies.export import exported_step

        model = replace(model, step=exported_step(model.card.config))
    if args.onnx:
        check_libraries("onnx")
        write_whole(target, standalone_graph(model))
    else:
        save_model(model, target)
        sentence += " in format 2" if args.format else ""
    write_json(facts | {"fingerprint": model.fingerprint}, args.json)
    if args.json != STDOUT:
        print(sentence)
    return 0


def check_libraries(*libraries: str) -> None:
    """Raise FcnetError if one of the libraries is not installed."""
    for library in libraries:
        if find_spec(library) is None:
            raise FcnetError(f"exporting needs the Python package {library}; `sh tools/setup.sh test` installs it")


def standalone_graph(model: PolicyModel) -> bytes:
    """Return the step of a model as an ONNX file for other programs: with its weights, documentation and card."""
    import onnx

    from fcnet_core.policies.exported_step import NEXT, bound_arrays, unpacked

    proto = onnx.load_model_from_string(unpacked(model.step)[0])
    arrays = bound_arrays(model)
    for tensor in proto.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(onnx.numpy_helper.from_array(arrays[tensor.name], tensor.name))
    lines = ["Takes the raw observation and the memory; returns `action` and what is written to the memory."]
    for value in proto.graph.input:
        if value.name not in model.card.config.observation_spec:
            rows = value.type.tensor_type.shape.dim[0].dim_value
            which, order = (f"{rows} last outputs", ", oldest first") if rows else ("last output", "")
            lines.append(f"input {value.name}: the {which} {NEXT}{value.name}{order}; zeros after a reset")
    lines.append("With the window policy reset_every_n, set all memory to zero after every n steps.")
    proto.graph.doc_string = "\n".join(lines)
    proto.producer_name = "fcnet"
    metadata = {METADATA_ENTRY: card_to_json(model.card), "fingerprint": model.fingerprint}
    onnx.helper.set_model_props(proto, metadata)
    onnx.checker.check_model(proto, full_check=True)
    content: bytes = proto.SerializeToString()
    return content


def largest_difference(one: PolicyModel, other: PolicyModel) -> float:
    """Return the largest difference of the actions of two models, on random observations, relative above 1."""
    from fcnet_core.bench import observations

    seen = observations(one, STEPS)
    actions, reference = (np.array([policy.step(row) for row in seen]) for policy in map(load_policy, (one, other)))
    return float((np.abs(actions - reference) / np.maximum(1.0, np.abs(reference))).max())
