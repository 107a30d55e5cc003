"""fcnet pull: a policy or a dataset fetched from where `fcnet push` has written it."""

from __future__ import annotations

import argparse
from pathlib import Path

from fcnet_core import counted

SUMMARY = "fetch a policy or a dataset that was pushed, and check it"
EPILOG = """
Every file must have the SHA-256 that SHA256SUMS states, and policies and datasets must be sound; otherwise nothing is
written. Files that SHA256SUMS does not name are not fetched.

examples:
  fcnet pull /mnt/share/aliengo
  fcnet pull my-lab/aliengo-fcnet -o policies/aliengo
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("source", metavar="SOURCE", help="a folder, or OWNER/NAME on the hub")
    parser.add_argument(
        "-o", "--out", type=Path, metavar="PATH", help="the new folder (default: named as SOURCE, here)"
    )


def run(args: argparse.Namespace) -> int:
    """Pull; 0 when all is there and sound."""
    from fcnet_core.sharing import pull

    folder = args.out or Path(Path(args.source).resolve().name)
    print(f"wrote {folder}: {counted(len(pull(args.source, folder)), 'file')}, as they were pushed")
    return 0
