"""fcnet list: the names that can be given to the other verbs and to the launch files."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.metadata import entry_points

from fcnet_core.model_file import load_model, shipped_names
from fcnet_core.policies import policy_type, policy_type_names
from fcnet_core.robot import ROBOT_FOLDER, load_robot

SUMMARY = "list what there is to choose from: models, robots, terrains, policy types"
EPILOG = """
A name is the first word of a line. A model's name stands for its file in every verb, in load_policy and in policy:=.

examples:
  fcnet list
  fcnet list models
"""
LIST_GROUP = "fcnet.lists"  # entry points: () -> what it is, by name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    names = sorted(entry.name for entry in entry_points(group=LIST_GROUP))
    parser.add_argument("what", nargs="?", choices=names, help="what to list (default: everything)")


def run(args: argparse.Namespace) -> int:
    """Print the names, each with what it is; 0."""
    for entry in sorted(entry_points(group=LIST_GROUP), key=lambda entry: entry.name):
        if args.what in (None, entry.name):
            found: dict[str, str] = entry.load()()
            width = max(map(len, found))
            lines = [f"{name:<{width}}  {text}" for name, text in found.items()]
            print("\n".join(lines if args.what else [f"{entry.name}:", *(f"  {line}" for line in lines), ""]))
    return 0


def models() -> dict[str, str]:
    """The policies that come with the suite."""
    cards = {name: load_model(name).card for name in shipped_names()}
    return {
        name: f"{card.robot}, {card.policy_type}, {card.config.parameters:,} parameters, {card.control_rate:g} Hz"
        for name, card in cards.items()
    }


def robots() -> dict[str, str]:
    """The robots in config/robots."""
    known = {path.stem: load_robot(path) for path in sorted(ROBOT_FOLDER.glob("*.yaml"))}
    return {name: f"{robot.mass:.1f} kg, {robot.nominal_height:.2f} m high" for name, robot in known.items()}


def policies() -> dict[str, str]:
    """The types of policies, each with the first paragraph of its package."""
    packages = {name: import_module(policy_type(name).package) for name in policy_type_names()}
    return {name: " ".join((found.__doc__ or "").split("\n\n")[0].split()) for name, found in packages.items()}
