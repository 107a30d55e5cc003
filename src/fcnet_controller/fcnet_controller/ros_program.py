"""Runs a program with ROS until a signal, or until it ends by itself."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

SIGNALS = (signal.SIGINT, signal.SIGTERM)
REFUSED = 2  # exit code


def run_program(name: str, run: Callable[[threading.Event], int], signals: Sequence[signal.Signals] = SIGNALS) -> int:
    """The exit code, which is what `run` returns; a signal sets the event that it is given.

    What it refuses, or is refused, by a ValueError, OSError or ParameterException becomes a sentence and exit code 2.
    """
    stop = threading.Event()

    def stop_on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in signals:
        signal.signal(number, stop_on_signal)
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    try:
        return run(stop)
    except (ValueError, OSError, ParameterException) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return REFUSED
    finally:
        rclpy.try_shutdown()


def spin(node: Node, stop: threading.Event, at_end: Callable[[], None]) -> None:
    """Answer ROS until `stop` is set, then do what is to be done `at_end`, while the node still can."""
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.1)
        at_end()
    finally:
        executor.shutdown()
        node.destroy_node()
