"""`ros2 bag record`."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..bag.bag_writer import BagWriter
    from ..bag.recorder import RecordOptions
    from ..bag.writer_thread import WriterThread

SUMMARY = "Record topics to a bag."
NODE_NAME = "rosbag2_recorder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("-o", "--output", help="the bag's folder, which must not exist (rosbag2_<date and time>)")
    parser.add_argument("-s", "--storage", type=_storage, default="mcap", help="the kind of file: mcap")
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument("topics_positional", nargs="*", default=[], metavar="topic", help="topics to record")
    topics.add_argument("--topics", nargs="+", default=[], metavar="TOPIC", help="topics to record")
    parser.add_argument("--topic-types", nargs="+", default=[], metavar="TYPE", help="record the topics of these types")
    parser.add_argument("-a", "--all", action="store_true", help="record all topics")
    parser.add_argument("--all-topics", action="store_true", help="record all topics")
    parser.add_argument("-e", "--regex", default="", help="record topics that contain the regular expression")
    parser.add_argument("--exclude-regex", default="", help="but none that contains this one")
    parser.add_argument("--exclude-topics", nargs="+", default=[], metavar="TOPIC", help="but not these topics")
    parser.add_argument("--exclude-topic-types", nargs="+", default=[], metavar="TYPE", help="but none of these types")
    parser.add_argument("--include-unpublished-topics", action="store_true", help="also topics that nobody publishes")
    parser.add_argument("--include-hidden-topics", action="store_true", help="also topics with a leading underscore")
    parser.add_argument("--no-discovery", action="store_true", help="only topics that exist at the start")
    parser.add_argument(
        "-p", "--polling-interval", type=_natural, default=100, metavar="MS", help="look for topics (100)"
    )
    parser.add_argument("--qos-profile-overrides-path", metavar="FILE", help="QoS by topic, as YAML")
    parser.add_argument("-b", "--max-bag-size", type=_natural, default=0, metavar="BYTES", help="begin a new file then")
    parser.add_argument("-d", "--max-bag-duration", type=_natural, default=0, metavar="S", help="begin a new file then")
    parser.add_argument(
        "--max-cache-size",
        type=_natural,
        default=100 << 20,
        metavar="BYTES",
        help="messages that may wait for the disk",
    )
    parser.add_argument("--disable-keyboard-controls", action="store_true", help="SPACE does not pause")
    parser.add_argument("--start-paused", action="store_true", help="wait for SPACE")
    parser.add_argument("--node-name", default=NODE_NAME, help=f"the recorder's name ({NODE_NAME})")
    parser.add_argument(
        "--custom-data", type=_pair, nargs="*", default=[], metavar="KEY=VALUE", help="kept in metadata.yaml"
    )
    parser.add_argument(
        "--storage-preset-profile",
        choices=("none", "zstd_fast", "zstd_small"),
        default="none",
        help="how the mcap file is compressed (none)",
    )


def _storage(text: str) -> str:
    if text != "mcap":
        raise argparse.ArgumentTypeError(f"there is no storage '{text}' to record to: this ros2 writes mcap")
    return text


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


def run(arguments: argparse.Namespace) -> int:
    """Record until interrupted."""
    from ..bag.writer_thread import WriterThread
    from ..verb_error import VerbError

    options = _options(arguments)
    bag = _open(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    writer = WriterThread(bag, arguments.max_cache_size)
    try:
        _record(arguments, options, writer, stop)
    finally:
        writer.finish()
    if writer.error is not None:
        reason = writer.error.strerror or str(writer.error)
        raise VerbError(
            f"recording to '{bag.folder}' has stopped: {reason}; the {bag.count} messages written before are readable"
        )
    return 0


def _options(arguments: argparse.Namespace) -> RecordOptions:
    from ..bag.recorded_qos import read_overrides
    from ..bag.recorder import RecordOptions
    from ..bag.topic_choice import TopicChoice
    from ..topic import absolute
    from ..verb_error import VerbError

    topics = arguments.topics_positional or arguments.topics
    every = arguments.all or arguments.all_topics
    if not (every or topics or arguments.topic_types or arguments.regex):
        raise VerbError("no topics to record: name some, or give --all, --topic-types or --regex")
    choice = TopicChoice(
        every,
        tuple(map(absolute, topics)),
        tuple(arguments.topic_types),
        arguments.regex,
        tuple(map(absolute, arguments.exclude_topics)),
        tuple(arguments.exclude_topic_types),
        arguments.exclude_regex,
        arguments.include_hidden_topics,
    )
    return RecordOptions(
        choice,
        not arguments.no_discovery,
        arguments.polling_interval / 1000,
        arguments.include_unpublished_topics,
        arguments.start_paused,
        read_overrides(arguments.qos_profile_overrides_path),
    )


def _record(arguments: argparse.Namespace, options: RecordOptions, writer: WriterThread, stop: threading.Event) -> None:
    """Record until `stop` is set or the writer has failed, and say what was recorded."""
    from ..bag.keyboard import open_keyboard
    from ..bag.recorder import Recorder
    from ..graph_node import graph_node, wait_for_discovery
    from ..participant_profile import LONG_QUEUE

    with contextlib.ExitStack() as stack:
        node = stack.enter_context(graph_node(arguments.node_name, queue=LONG_QUEUE))
        keyboard = stack.enter_context(open_keyboard(not arguments.disable_keyboard_controls))
        log = node.get_logger()
        recorder = Recorder(node, writer, options)
        if arguments.no_discovery:
            wait_for_discovery(node)
            recorder.discover()
        log.info("Wait for recording: Press SPACE to start." if options.paused else "Recording...")
        recorder.record(stop.is_set, keyboard)
        for name in recorder.missing():
            log.warning(f"Topic '{name}' was not recorded: it never appeared, or as told above.")
        writer.finish()
        if writer.error is None:
            found = f"{writer.bag.count} messages of {writer.bag.topic_count} topics"
            log.info(f"Recorded {found} in '{writer.bag.folder}', lost {recorder.lost}")


def _open(arguments: argparse.Namespace) -> BagWriter:
    from ..bag.bag_writer import BagWriter
    from ..bag.zstd import LEVELS
    from ..verb_error import VerbError

    folder = Path(arguments.output or datetime.datetime.now().strftime("rosbag2_%Y_%m_%d-%H_%M_%S"))
    try:
        return BagWriter(
            folder,
            level=LEVELS[arguments.storage_preset_profile],
            max_size=arguments.max_bag_size,
            max_duration=arguments.max_bag_duration * 1_000_000_000,
            custom_data=dict(arguments.custom_data),
        )
    except FileExistsError as error:
        raise VerbError(f"output folder '{folder}' already exists: name another with -o") from error
    except OSError as error:
        raise VerbError(f"cannot create the bag '{folder}': {error.strerror}") from error
