"""fcnet info: the contents of a policy file."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import msgspec

from fcnet_core.model_file import PolicyModel, brief, card_to_json, load_model, model_path
from fcnet_core.robot import SETPOINT_FIELDS
from fcnet_core.verbs import STDOUT, add_json, add_model, check_json, write_json

SUMMARY = "show the contents of a policy file: network, interface, gains, command ranges, training"
EPILOG = """
example:
  fcnet info models/aliengo.safetensors
"""
LONGEST = 10  # longer lists are shown by their length


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_model(parser)
    add_json(parser, "everything")


def run(args: argparse.Namespace) -> int:
    """Show the file; return 0."""
    check_json(args.json)
    model, path = load_model(args.model), model_path(args.model)
    size = path.stat().st_size
    if args.json:
        facts: dict[str, Any] = {"path": str(path), "size_bytes": size}
        facts["parameters"] = model.card.config.parameters
        facts |= {"fingerprint": model.fingerprint, "card": json.loads(card_to_json(model.card))}
        write_json(facts, args.json)
    if args.json != STDOUT:
        print("\n".join(_lines(path, size, model)))
    return 0


def _lines(path: Path, size: int, model: PolicyModel) -> list[str]:
    card, at, memory = model.card, model.card.interface, model.card.config.memory_steps
    settings = msgspec.structs.asdict(card.config)
    long = {name for name, value in settings.items() if isinstance(value, tuple) and len(value) > LONGEST}
    settings |= {name: f"of {len(settings[name])}" for name in long}
    sizes = ", ".join(f"{name} {value}" for name, value in settings.items())
    facts = {
        "robot" if at.robot else "environment": at.name or "any",
        "network": f"{card.policy_type}: {sizes}",
        "parameters": f"{card.config.parameters:,}",
        "window policy": card.window_policy,
        "rate": f"{at.rate:g} Hz",
        "memory": "unlimited" if math.isinf(memory) else f"{memory} steps ({memory / at.rate:.2f} s)",
        "created": card.created,
        "file": f"{size / 1e6:.2f} MB, format {card.format_version}",
        "fingerprint": model.fingerprint,
    }
    if at.joints:
        facts["gains"] = f"kp {brief(at.stiffness)} Nm/rad, kd {brief(at.damping)} Nms/rad"
    if at.commands.gait:
        gait = msgspec.structs.asdict(at.commands.gait)
        facts["gait"] = ", ".join(f"{name} {value:g}" for name, value in gait.items())
    lines = [str(path), *(f"  {name:<14} {value}" for name, value in facts.items())]
    for name, seen in at.inputs.items():
        shape = " x ".join(map(str, at.shapes[name]))
        lines += [f"  input {name} of {shape} values, clipped at {card.observation_clip:g} standard deviations"]
        lines += [f"    {at.size(term):>4} {_section(term, 'term')}" for term in seen.terms]
    lines += [f"  action of {at.values} values: {_section(at.action, 'kind')}"]
    if at.joints:
        lines += ["  joints, in order, with the default pose [rad]"]
        lines += [f"    {name:<16} {angle:8.3f}" for name, angle in zip(at.joints, at.pose, strict=True)]
    if ranges := at.commands.ranges:
        lines += ["  command ranges: lowest, highest, change per second"]
        lines += ["    {:<16} {:8.3g} {:8.3g} {:8.3g}".format(name, *msgspec.structs.astuple(ranges[name]))
                  for name in SETPOINT_FIELDS if name in ranges]  # fmt: skip
    if at.commands.envelope:
        lines += ["  command envelope: lowest and highest of the other fields at each vx, linear between"]
        lines += [f"  {line}" for line in at.commands.envelope.lines()]
    training = dict(card.training)
    if "data" in training:  # --json shows the descriptions
        folders = training["data"]
        training["data"] = {one["folder"]: f"{one['steps']:,} steps, weight {one['weight']:g}" for one in folders}
    return lines + (["  training", *_tree(training, indent="    ")] if training else [])


def _section(section: msgspec.Struct, kind: str) -> str:
    """Format a term or an action: its kind, then the settings that differ from the defaults."""
    facts = msgspec.to_builtins(section)
    settings = (f"{name} {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
                for name, value in facts.items() if name != kind)  # fmt: skip
    return "; ".join([facts[kind], *settings])


def _tree(facts: dict[str, Any], indent: str) -> list[str]:
    """Format nested facts, one a line."""
    lines: list[str] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", *_tree(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {value}")
    return lines
