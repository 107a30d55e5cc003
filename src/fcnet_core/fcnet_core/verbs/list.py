"""fcnet list: the names that other verbs and launch files accept."""

import argparse
from importlib import import_module
from importlib.metadata import entry_points

from fcnet_core.model_file import load_model, shipped_names
from fcnet_core.policies import policy_type, policy_type_names
from fcnet_core.robot import load_robot, robot_files
from fcnet_core.verbs import STDOUT, add_json, check_json, write_json

SUMMARY = "list the models, robots, terrains and policy types that can be chosen by name"
EPILOG = """
The name is the first word of a line. Every verb, load_policy and policy:= accept a model's name in place of its file.

examples:
  fcnet list
  fcnet list models
"""
LIST_GROUP = "fcnet.lists"  # entry points: functions that return a description by name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    names = sorted(entry.name for entry in entry_points(group=LIST_GROUP))
    parser.add_argument("what", nargs="?", choices=names, help="type of names to list (default: all)")
    add_json(parser, "the names")


def run(args: argparse.Namespace) -> int:
    """Print the names with their descriptions; return 0."""
    check_json(args.json)
    entries = sorted(entry_points(group=LIST_GROUP), key=lambda entry: entry.name)
    found: dict[str, dict[str, str]] = {e.name: e.load()() for e in entries if args.what in (None, e.name)}
    write_json(found, args.json)
    for group, texts in found.items() if args.json != STDOUT else ():
        width = max(map(len, texts))
        lines = [f"{name:<{width}}  {text}" for name, text in texts.items()]
        print("\n".join(lines if args.what else [f"{group}:", *(f"  {line}" for line in lines), ""]))
    return 0


def models() -> dict[str, str]:
    """Describe the shipped policies."""
    found = {}
    for name in shipped_names():
        card = load_model(name).card
        at = card.interface
        found[name] = f"{at.name}, {card.policy_type}, {card.config.parameters:,} parameters, {at.rate:g} Hz"
    return found


def robots() -> dict[str, str]:
    """Describe the robots."""
    known = {name: load_robot(path) for name, path in robot_files().items()}
    return {name: f"{len(robot.joints)} joints, {robot.nominal_height:.2f} m high" for name, robot in known.items()}


def policies() -> dict[str, str]:
    """Describe the types of policies by the first paragraph of their package."""
    packages = {name: import_module(policy_type(name).package) for name in policy_type_names()}
    return {name: " ".join((found.__doc__ or "").split("\n\n")[0].split()) for name, found in packages.items()}
