"""fcnet replay: a policy over a recorded bag."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fcnet_core.files import check_writable, write_whole

if TYPE_CHECKING:
    from fcnet_replay.evaluation import ReplayEvaluation

SUMMARY = "evaluate a recorded bag, and what a policy would have done in it"
EPILOG = """
Reads rosbag2 bags (mcap, sqlite3) without ROS, steps the policy through every situation that the bag holds, and reports
how far its targets are from those that were sent, how smooth they are, and how robot and messages behaved. The same
bag gives the same report every time. Damaged bags are read as far as they go.

exit status: 0 fine, 1 a --fail-above threshold is broken, 2 unusable bag or argument

examples:
  fcnet replay bags/walk
  fcnet replay bags/walk --report report.html --json report.json
  fcnet replay bags/walk --policy models/aliengo.safetensors --policy new.safetensors --report compare.html
  fcnet replay bags/walk --fail-above action_error_rad.max=1e-5 --fail-above motion.tilt_rad.max=0.4
  fcnet replay go2.mcap --robot a1 --topics config/bags/go2.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("bag", type=Path, metavar="BAG", help="a bag's folder, or one .mcap or .db3 file")
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a policy (.safetensors); repeat to compare (default: the recorded one, else the robot's shipped one)",
    )
    parser.add_argument("--robot", metavar="NAME", help="the robot, or its file (default: the recorded one)")
    parser.add_argument("--namespace", metavar="NS", help="the robot's namespace (default: the recorded one)")
    parser.add_argument("--topics", type=Path, metavar="YAML", help="where a foreign bag has what, see config/bags/")
    parser.add_argument("--report", type=Path, metavar="HTML", help="write a page with plots, one file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument(
        "--fail-above",
        action="append",
        default=[],
        metavar="METRIC=VALUE",
        help="exit with 1 when a figure of the JSON file is larger; repeat for several",
    )


def run(args: argparse.Namespace) -> int:
    """Evaluate; 0 when no threshold is broken."""
    from fcnet_replay.evaluation import broken_thresholds, evaluate_bag, parse_threshold
    from fcnet_replay.report.findings import summary

    check_writable(args.json, args.report)
    thresholds = [parse_threshold(text) for text in args.fail_above]
    evaluation = evaluate_bag(args.bag, args.policy, args.robot, args.namespace, args.topics)
    broken = broken_thresholds(evaluation.figures, thresholds)
    print(summary(evaluation))
    _write(evaluation, args)
    for sentence in broken:
        print(f"fcnet: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def _write(evaluation: ReplayEvaluation, args: argparse.Namespace) -> None:
    if args.json:
        write_whole(args.json, json.dumps(evaluation.figures, indent=2, allow_nan=False).encode())
        print(f"wrote {args.json}")
    if args.report:
        from fcnet_replay.report.page import page

        write_whole(args.report, page(evaluation).encode())
        print(f"wrote {args.report}; open it in a browser")
