"""fcnet info: what a policy file holds."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import msgspec

from fcnet_core.model_file import PolicyModel, brief, card_to_json, load_model, model_path
from fcnet_core.robot import SETPOINT_FIELDS

SUMMARY = "show what a policy file holds: robot, network, gains, command ranges, training"
EPILOG = """
example:
  fcnet info models/aliengo.safetensors
"""
LONGEST = 10  # entries of a list that are shown one by one
WINDOW_POLICIES = {
    "sliding": "sliding (the window moves on for ever)",
    "reset_every_n": "reset_every_n (all memory is cleared after each window)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("model", metavar="MODEL", help="a policy file (.safetensors), or a name of `fcnet list models`")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Show the file; 0 when it is a valid model."""
    model, path = load_model(args.model), model_path(args.model)
    size = path.stat().st_size
    if args.json:
        facts: dict[str, Any] = {"path": str(path), "size_bytes": size}
        facts["parameters"] = model.card.config.parameters
        facts |= {"fingerprint": model.fingerprint, "card": json.loads(card_to_json(model.card))}
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(_lines(path, size, model)))
    return 0


def _shown(value: object) -> str:
    """A setting of the network; of a long list, how many entries it has."""
    return f"of {len(value)}" if isinstance(value, tuple) and len(value) > LONGEST else str(value)


def _lines(path: Path, size: int, model: PolicyModel) -> list[str]:
    card, memory = model.card, model.card.config.memory_steps
    sizes = ", ".join(f"{name} {_shown(value)}" for name, value in msgspec.structs.asdict(card.config).items())
    facts = {
        "robot": card.robot,
        "network": f"{card.policy_type}: {sizes}",
        "parameters": f"{card.config.parameters:,}",
        "window policy": WINDOW_POLICIES[card.window_policy],
        "control rate": f"{card.control_rate:g} Hz",
        "memory": "without end" if math.isinf(memory) else f"{memory} steps ({memory / card.control_rate:.2f} s)",
        "observation": f"{card.config.observation} values, clipped at {card.observation_clip:g} standard deviations",
        "created": card.created,
        "file": f"{size / 1e6:.2f} MB, format {card.format_version}",
        "fingerprint": model.fingerprint,
    }
    if card.joint_names:
        facts["gains"] = f"kp {brief(card.kp)} Nm/rad, kd {brief(card.kd)} Nms/rad"
        facts["gait"] = ", ".join(f"{name} {value:g}" for name, value in card.gait.items())
    lines = [str(path), *(f"  {name:<14} {value}" for name, value in facts.items())]
    if card.joint_names:
        poses = zip(card.joint_names, card.default_pose, strict=True)
        ranges = [(name, card.command_ranges[name]) for name in SETPOINT_FIELDS]
        lines += ["  joints, in order, with the default pose [rad]"]
        lines += [f"    {name:<16} {angle:8.3f}" for name, angle in poses]
        lines += ["  command ranges: lowest, highest, change per second"]
        lines += ["    {:<16} {:8.3g} {:8.3g} {:8.3g}".format(name, *limits) for name, limits in ranges]
        if card.envelope:
            lines += ["  command envelope: lowest and highest of the other fields at each vx, linear between"]
            lines += [f"  {line}" for line in card.envelope.lines()]
    return lines + (["  training", *_tree(card.training, indent="    ")] if card.training else [])


def _tree(facts: dict[str, Any], indent: str) -> list[str]:
    """Nested facts, one a line."""
    lines: list[str] = []
    for name, value in facts.items():
        if name == "data":
            lines += [f"{indent}{name}", *(f"{indent}  {_folder(folder)}" for folder in value)]
        elif isinstance(value, dict):
            lines += [f"{indent}{name}", *_tree(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {value}")
    return lines


def _folder(facts: dict[str, Any]) -> str:
    """A data folder in a line; --json shows the whole recipe."""
    return f"{facts['folder']}: {facts['steps']:,} steps, weight {facts['weight']:g}"
