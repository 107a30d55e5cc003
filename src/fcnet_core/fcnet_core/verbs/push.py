"""fcnet push: a policy or a dataset handed on."""

from __future__ import annotations

import argparse
from pathlib import Path

from fcnet_core import counted

SUMMARY = "copy a policy with its card, or a dataset, to a folder or to the Hugging Face hub"
EPILOG = """
A policy takes its card along, the Markdown file of the same name beside it, as README.md; the folder of a training run
stands for its best policy, with what `fcnet evaluate` wrote of it as the card. SHA256SUMS lists every file,
and `fcnet pull` checks it. A folder must be new. OWNER/NAME is a repository of the hub where there is no folder OWNER,
made if there is none, and then private; it needs the package huggingface_hub and `hf auth login`.

examples:
  fcnet push models/aliengo.safetensors /mnt/share/aliengo
  fcnet push runs/aliengo-fcnet-1 /mnt/share/mine
  fcnet push data/aliengo ./shared/aliengo-data
  fcnet push models/aliengo.safetensors my-lab/aliengo-fcnet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("path", type=Path, metavar="PATH", help="a policy (a file, a run, a name) or a dataset")
    parser.add_argument("destination", metavar="DESTINATION", help="a new folder, or OWNER/NAME on the hub")


def run(args: argparse.Namespace) -> int:
    """Push; 0 when all is there."""
    from fcnet_core.sharing import push

    print(f"wrote {args.destination}: {counted(len(push(args.path, args.destination)), 'file')}")
    return 0
