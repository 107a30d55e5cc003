"""`ros2 bag play`."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..bag.player import PlayOptions

SUMMARY = "Play a bag."
NODE_NAME = "rosbag2_player"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("bag_path", type=Path, help="the bag's folder, or one of its files")
    parser.add_argument("-s", "--storage", default="", help="refuse bags stored otherwise: mcap or sqlite3")
    parser.add_argument("-r", "--rate", type=_positive, default=1.0, help="so many times real time (1)")
    parser.add_argument("--topics", nargs="+", default=[], metavar="TOPIC", help="play these topics only")
    parser.add_argument("-e", "--regex", default="", help="play the topics that match the regular expression")
    parser.add_argument("-x", "--exclude-regex", default="", help="but none that matches this one")
    parser.add_argument("--exclude-topics", nargs="+", default=[], metavar="TOPIC", help="but not these topics")
    parser.add_argument("--qos-profile-overrides-path", metavar="FILE", help="QoS by topic, as YAML")
    parser.add_argument("-l", "--loop", action="store_true", help="begin again at the end")
    parser.add_argument("-m", "--remap", nargs="+", default=[], metavar="OLD:=NEW", help="play under other names")
    clock = parser.add_mutually_exclusive_group()
    clock.add_argument(
        "--clock", type=_positive, nargs="?", const=40.0, default=0.0, metavar="HZ", help="send /clock (40)"
    )
    clock.add_argument("--clock-topics", nargs="+", default=[], metavar="TOPIC", help="send /clock with these topics")
    clock.add_argument("--clock-topics-all", action="store_true", help="send /clock before every message")
    parser.add_argument("-d", "--delay", type=_positive, default=0.0, metavar="S", help="wait before each time")
    parser.add_argument("--playback-duration", type=float, default=-1.0, metavar="S", help="play so much of the bag")
    parser.add_argument("--disable-keyboard-controls", action="store_true", help="keys do nothing")
    parser.add_argument("-p", "--start-paused", action="store_true", help="wait for SPACE")
    parser.add_argument("--start-offset", type=_not_negative, default=0.0, metavar="S", help="leave out so much")
    parser.add_argument(
        "--wait-for-all-acked",
        type=_not_negative,
        metavar="MS",
        help="at the end, until all was received (0: for ever)",
    )


def _positive(text: str) -> float:
    value = float(text)
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is negative, or no number")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Play until the end, or until interrupted."""
    from ..bag.bag_reader import open_bag
    from ..bag.keyboard import open_keyboard
    from ..bag.player import Player
    from ..graph_node import graph_node

    remappings = [part for rule in arguments.remap for part in ("--remap", _rule(rule))]
    options = _options(arguments)
    with (
        open_bag(arguments.bag_path, arguments.storage) as bag,
        graph_node(NODE_NAME, ["--ros-args", *remappings]) as node,
        open_keyboard(not arguments.disable_keyboard_controls) as keyboard,
    ):
        try:
            player = Player(node, bag, options, keyboard)
            player.play()
            if arguments.wait_for_all_acked is not None:
                player.wait_for_all_acked(arguments.wait_for_all_acked / 1000)
        except KeyboardInterrupt:
            pass  # the usual end of a loop
    return 0


def _options(arguments: argparse.Namespace) -> PlayOptions:
    from ..bag.player import PlayOptions
    from ..bag.recorded_qos import read_overrides
    from ..bag.topic_choice import TopicChoice
    from ..topic import absolute

    excluded = [absolute(name) for name in arguments.exclude_topics]
    if arguments.clock:
        excluded.append("/clock")
    named = tuple(map(absolute, arguments.topics))
    choice = TopicChoice(
        every=not (named or arguments.regex),
        names=named,
        regex=_whole(arguments.regex),
        exclude_names=tuple(excluded),
        exclude_regex=_whole(arguments.exclude_regex),
        hidden=True,
    )
    clock_topics = tuple(map(absolute, arguments.clock_topics))
    clock_with = TopicChoice(every=arguments.clock_topics_all, names=clock_topics, hidden=True)
    return PlayOptions(
        choice,
        rate=arguments.rate,
        loop=arguments.loop,
        paused=arguments.start_paused,
        delay=arguments.delay,
        offset=arguments.start_offset,
        duration=arguments.playback_duration if arguments.playback_duration >= 0.0 else math.inf,
        clock_rate=arguments.clock,
        clock_with=clock_with if arguments.clock_topics_all or clock_topics else None,
        overrides=read_overrides(arguments.qos_profile_overrides_path),
    )


def _whole(expression: str) -> str:
    """Return an expression that matches whole names, as upstream's player; its recorder looks for parts."""
    return f"^(?:{expression})$" if expression else ""


def _rule(text: str) -> str:
    from ..verb_error import VerbError

    old, separator, new = text.partition(":=")
    if not old or not separator or not new:
        raise VerbError(f"malformed remapping '{text}': expected OLD:=NEW")
    return text
