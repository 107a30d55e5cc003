"""`ros2 bag record`."""

from __future__ import annotations

import argparse
import datetime
import signal
from pathlib import Path
from typing import Any

from . import VerbError, add_command, add_verb
from .bag_recorder import SECOND, Recorder, WriterThread
from .bag_writer import COMPRESSIONS, BagWriter
from .graph import LONG_QUEUE, absolute, graph_node


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


def _record(arguments: argparse.Namespace) -> int:
    """Record until SIGINT or SIGTERM."""
    names = set(map(absolute, arguments.topics))
    if not (arguments.all or names):
        raise VerbError("no topics to record: name some, or give --all")
    bag = _create(arguments)
    stops: list[int] = []  # an Event's lock would be held when a second signal comes in the handler of the first
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda stop, _: stops.append(stop))
    writer = WriterThread(bag)
    try:
        with graph_node("rosbag2_recorder", queue=LONG_QUEUE) as node:
            log = node.get_logger()
            recorder = Recorder(node, writer, lambda name: name in names or (arguments.all and "/_" not in name))
            log.info("Recording...")
            recorder.record(lambda: bool(stops))
            for name in sorted(names - set(recorder.subscriptions)):
                log.warning(f"Topic '{name}' was not recorded: it never appeared, or for the reason above.")
            writer.finish()
            if writer.error is None:
                found = f"{bag.count} messages of {len(bag.topics)} topics"
                log.info(f"Recorded {found} in '{bag.folder}', dropped {recorder.overflowed}")
    finally:
        writer.finish()
    if writer.error is not None:
        reason = writer.error.strerror or str(writer.error)
        raise VerbError(
            f"recording to '{bag.folder}' has stopped: {reason}; the {bag.count} messages written before are readable"
        )
    return 0


def _create(arguments: argparse.Namespace) -> BagWriter:
    folder = Path(arguments.output or datetime.datetime.now().strftime("rosbag2_%Y_%m_%d-%H_%M_%S"))
    compression = COMPRESSIONS[arguments.storage_preset_profile]
    try:
        return BagWriter(folder, compression, arguments.max_bag_duration * SECOND, dict(arguments.custom_data))
    except FileExistsError as error:
        raise VerbError(f"output folder '{folder}' already exists: name another with -o") from error
    except OSError as error:
        raise VerbError(f"cannot create the bag '{folder}': {error.strerror}") from error


def add_commands(commands: Any) -> None:
    """Add `bag`."""
    verb = add_verb(add_command(commands, "bag"), "record", _record, "Record topics to a bag.")
    verb.add_argument("-o", "--output", help="the bag's folder, which must not exist (rosbag2_<date and time>)")
    verb.add_argument("-s", "--storage", choices=("mcap",), default="mcap", help="the kind of file: mcap")
    verb.add_argument("topics", nargs="*", default=[], metavar="topic", help="topics to record")
    verb.add_argument("-a", "--all", action="store_true", help="record all topics")
    verb.add_argument(
        "-d", "--max-bag-duration", type=int, default=0, metavar="S", help="start a new file after so many seconds"
    )
    verb.add_argument("--custom-data", type=_pair, nargs="*", default=[], metavar="KEY=VALUE", help="to metadata.yaml")
    verb.add_argument("--storage-preset-profile", choices=tuple(COMPRESSIONS), default="none", help="compression")
    verb.add_argument("--disable-keyboard-controls", action="store_true", help="no change: keys do nothing here")
