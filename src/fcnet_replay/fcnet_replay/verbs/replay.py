"""fcnet replay: evaluate a recorded bag and the policies replayed over it."""

import argparse
import sys
from pathlib import Path

from fcnet_core.files import check_writable, write_whole
from fcnet_core.verbs import STDOUT, add_json, check_json, write_json
from fcnet_replay.verbs import add_source

SUMMARY = "evaluate a recorded bag and replay policies over it"
EPILOG = """
Reads rosbag2 bags (mcap, sqlite3) and ROS 1 bags without ROS. Runs each policy on every recorded state. Reports how
far the policy's targets differ from the recorded ones, how smooth they are, the robot's motion and the timing of
messages. The same bag always gives the same report. Damaged bags are read up to the damage.

exit status: 0 success, 1 a --fail-above limit is exceeded, 2 unusable bag or argument

examples:
  fcnet replay bags/walk
  fcnet replay bags/walk --report report.html --json report.json
  fcnet replay bags/walk models/aliengo.safetensors new.safetensors --report compare.html
  fcnet replay bags/walk --fail-above action_error_rad.max=1e-5 --fail-above motion.tilt_rad.max=0.4
  fcnet replay go2.mcap --robot a1 --topics config/bags/go2.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("bag", type=Path, metavar="BAG", help="folder of a bag, or one .mcap, .db3 or .bag file")
    models = "model file; several are compared (default: the recorded policy, or else the robot's shipped one)"
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL", help=models)
    add_source(parser)
    parser.add_argument("--report", type=Path, metavar="HTML", help="write a report with plots to one HTML file")
    add_json(parser, "all figures")
    limit = "exit with status 1 if a figure of the JSON file exceeds a limit; may be given several times"
    parser.add_argument("--fail-above", action="append", default=[], metavar="METRIC=VALUE", help=limit)


def run(args: argparse.Namespace) -> int:
    """Evaluate a bag; return 0, or 1 if a limit of --fail-above is exceeded."""
    from fcnet_replay.evaluation import broken_thresholds, evaluate_bag, parse_threshold
    from fcnet_replay.report.findings import summary

    check_json(args.json)
    check_writable(args.report)
    thresholds = [parse_threshold(text) for text in args.fail_above]
    evaluation = evaluate_bag(args.bag, args.models, args.robot, args.namespace, args.topics)
    broken = broken_thresholds(evaluation.figures, thresholds)
    if args.report:
        from fcnet_replay.report.page import page

        write_whole(args.report, page(evaluation).encode(errors="replace"))
    write_json(evaluation.figures, args.json)
    if args.json != STDOUT:  # the JSON alone can be piped into a program
        print(summary(evaluation))  # after the files, as its reader may exit
    if args.json and args.json != STDOUT:
        print(f"wrote {args.json}")
    if args.report:
        print(f"wrote {args.report}; open it in a browser", file=sys.stderr if args.json == STDOUT else sys.stdout)
    for sentence in broken:
        print(f"fcnet: {sentence}", file=sys.stderr)
    return 1 if broken else 0
