"""Runs a node that simulates in the main thread and answers ROS in another, until a signal or an error ends it."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType

import rclpy
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions


class SimulatingNode(Node):
    """A node with work of its own for the main thread."""

    def simulate(self, stop: threading.Event, receiving: Future[None]) -> None:
        """Work until `stop` is set or nobody receives any more."""
        raise NotImplementedError


def run_node(name: str, make: Callable[[], SimulatingNode]) -> None:
    """Make the node called `name` and run it; what it refuses, or is refused, ends the program with a sentence."""
    stop = threading.Event()

    def stop_on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_on_signal)
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    try:
        _run(make(), stop)
    except (ValueError, OSError, InvalidParameterTypeException, InvalidParameterValueException) as error:
        sys.exit(f"{name}: {error}")
    finally:
        rclpy.try_shutdown()


def _run(node: SimulatingNode, stop: threading.Event) -> None:
    executor = SingleThreadedExecutor()
    executor.add_node(node)

    def receive() -> None:
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.1)

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="receive") as threads:
        receiving = threads.submit(receive)
        gc.collect()
        gc.freeze()  # what lives now lives on: later collections need not look at it and stay short
        try:
            node.simulate(stop, receiving)
        finally:
            stop.set()
    receiving.result()
    executor.shutdown()
    node.destroy_node()
