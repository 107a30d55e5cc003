"""fcnet study: what policies learn from how much data."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from fcnet_core.files import write_whole
from fcnet_study import StudyError
from quadruped_sim.worker_pool import add_worker_options

SUMMARY = "train kinds of policies on parts of the data, and compare how they walk"
EPILOG = """
Every variant of the settings is trained on every share of the data with every seed, and each policy walks through the
scenarios of `fcnet evaluate`. Where a variant has several learning rates, the best on the smallest share is taken.
A job's result is a file in the study's folder: the same command line goes on after an interruption, and an unfinished
job is done again. After each seed the table is written as results.md and results.json, and the
figure as results.png.

examples:
  fcnet study data --config config/study/data.yaml --data data/aliengo --out runs/study-data
  fcnet study data --config config/study/ablations.yaml --data data/aliengo --out runs/study-ablations
"""
LIBRARIES = ("torch", "matplotlib")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("what", choices=("data",), help="what to study")
    parser.add_argument("--config", required=True, type=Path, metavar="YAML", help="settings, see config/study/")
    parser.add_argument("--data", required=True, action="append", metavar="DIR", help="data; repeat for several")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the study's folder")
    add_worker_options(parser)


def run(args: argparse.Namespace) -> int:
    """Do what is not done yet, and print the table; 0 when all is done."""
    for library in LIBRARIES:
        if find_spec(library) is None:
            raise StudyError(f"fcnet study needs the Python package {library}; `sh tools/setup.sh test` installs it")
    import torch

    from fcnet_core.learning.dataset import Dataset
    from fcnet_study.data_study.findings import draw, report
    from fcnet_study.data_study.settings import load_plan
    from fcnet_study.data_study.study import Study

    torch.set_num_threads(1)
    for results in Study(load_plan(args.config), Dataset(args.data), args.out).run(args.workers):
        table = report(results)
        table.write_json(args.out / "results.json")
        write_whole(args.out / "results.md", table.markdown().encode())
        draw(results, args.out / "results.png")
    print(table.text())
    return 0
