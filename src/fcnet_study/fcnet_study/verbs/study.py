"""fcnet study: what policies learn from how much data, and what architectures learn by reinforcement."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import fcnet_core
from fcnet_core.errors import StudyError
from fcnet_core.files import read_settings, write_whole
from quadruped_sim.worker_pool import add_worker_options

SUMMARY = "train kinds of policies, on parts of the data or by PPO, and compare how they walk"
EPILOG = """
data, policies: every variant of the settings is trained on every share of the data with every seed, and each policy
walks through the scenarios of `fcnet evaluate`. Where a variant has several learning rates, the best on the smallest
share is taken.
walk: every architecture learns the A1-Walk task of the Body Transformer paper by PPO with every seed, on a GPU where
there is one.
What is done is a file in the study's folder: the same command line goes on after an interruption. The table is written
as results.md and results.json, and the figure as results.png, by data after each seed, by walk after each job.

examples:
  fcnet study data --data data/aliengo --out runs/study-data
  fcnet study data --config config/study/ablations.yaml --data data/aliengo --out runs/study-ablations
  fcnet study policies --data data/aliengo --out runs/study-policies
  fcnet study walk --out runs/study-walk
"""
STUDIES = Path(fcnet_core.__file__).parent / "config" / "study"
DATA_LIBRARIES = ("torch", "matplotlib")
WALK_LIBRARIES = (*DATA_LIBRARIES, "gymnasium", "stable_baselines3")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("what", choices=("data", "policies", "walk"), help="what to study")
    parser.add_argument("--config", type=Path, metavar="YAML", help="settings (default: config/study/WHAT.yaml)")
    parser.add_argument(
        "--data", action="append", metavar="DIR", help="but of walk, the data; repeat for several folders"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the study's folder")
    add_worker_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do what is not done yet, and print the table; 0 when all is done."""
    walk = args.what == "walk"
    if walk == bool(args.data):
        needs = "takes no --data" if walk else "needs the folder of its data as --data"
        raise StudyError(f"fcnet study {args.what} {needs}")
    config = args.config or STUDIES / f"{args.what}.yaml"
    for library in WALK_LIBRARIES if walk else DATA_LIBRARIES:
        if find_spec(library) is None:
            raise StudyError(f"fcnet study needs the Python package {library}; `sh tools/setup.sh test` installs it")
    print(_study_walk(config, args) if walk else _study_data(config, args))
    return 0


def _study_data(config: Path, args: argparse.Namespace) -> str:
    import torch

    from fcnet_core.learning.dataset import Dataset
    from fcnet_study.data_study.findings import draw, report
    from fcnet_study.data_study.settings import load_plan
    from fcnet_study.data_study.study import Study

    torch.set_num_threads(1)
    for results in Study(load_plan(config), Dataset(args.data), args.out).run(args.workers):
        table = report(results)
        table.write_json(args.out / "results.json")
        write_whole(args.out / "results.md", table.markdown().encode())
        draw(results, args.out / "results.png")
    return table.text()


def _study_walk(config: Path, args: argparse.Namespace) -> str:
    import torch

    from fcnet_study.walk_study.settings import WalkConfig
    from fcnet_study.walk_study.study import WalkStudy

    if isinstance(args.workers, str):
        raise StudyError("fcnet study walk works with processes of this machine; give --processes in place of --ray")
    torch.set_num_threads(args.workers)  # an update has the cores while the robots wait for it
    return WalkStudy(read_settings(config, WalkConfig, "study"), args.out, args.workers).run().text()
