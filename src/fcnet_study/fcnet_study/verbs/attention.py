"""fcnet attention: which joint looks at which, over a recorded walk."""

from __future__ import annotations

import argparse
from pathlib import Path

from fcnet_core.errors import StudyError
from fcnet_core.files import Count, check_writable, option, write_whole
from fcnet_core.model_file import load_model

SUMMARY = "show which joint a Body Transformer lets look at which, over a recorded walk"
EPILOG = """
Writes one HTML page that loads nothing: a map of every layer and head, averaged over the walk, with the mask of the
body's graph; and how much single pairs of nodes look at each other over the stride and over time. The walk is training
data, or the walking sections of a bag; the policy sees what the recorded one saw.

examples:
  fcnet attention bot.safetensors docs/examples/aliengo_walk -o attention.html
  fcnet attention bot.safetensors data/aliengo --steps 50000 --pair FR_calf trunk -o attention.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a policy file of a Body Transformer")
    parser.add_argument("source", type=Path, metavar="DATA_OR_BAG", help="a data folder, or a bag")
    parser.add_argument("-o", dest="page", type=Path, required=True, metavar="HTML", help="write the page here")
    parser.add_argument(
        "--pair", nargs=2, metavar="NODE", help="who looks at whom over the stride and time (default: what varies most)"
    )
    parser.add_argument("--steps", type=option(Count), default=10_000, metavar="N", help="at most (default: 10,000)")
    parser.add_argument("--robot", metavar="NAME", help="of a bag that does not say which robot it is of")


def run(args: argparse.Namespace) -> int:
    """Attend and write; 0 when it is done."""
    from fcnet_replay.datasets.from_bag import BagReading
    from fcnet_study.attention import attending_config, attention_over, check_fits
    from fcnet_study.attention_page import page
    from fcnet_study.recorded import recorded

    check_writable(args.page)
    model = load_model(args.model)
    config = attending_config(model, args.model)
    pair: tuple[str, str] | None = tuple(args.pair) if args.pair else None
    if pair:
        names = [node.name for node in config.graph.nodes]
        if unknown := set(pair) - set(names):
            raise StudyError(f"the model's body has no node {min(unknown)}; choose among {', '.join(names)}")
        query, key = map(names.index, pair)
        if not any(config.admitted(layer)[query, key] for layer in range(config.layers)):
            raise StudyError(f"the mask lets {pair[0]} look at {pair[1]} in no layer; choose another pair")
    with recorded(args.source, BagReading(robot=args.robot, rate=float(model.card.control_rate))) as data:
        check_fits(model, data, args.source)
        attention = attention_over(model, data, args.steps)
    content = page(attention, args.model.name, args.source.name, model.card.robot, pair)
    write_whole(args.page, content.encode())
    print(f"wrote {args.page}, of {attention.steps:,} steps; open it in a browser")
    return 0
