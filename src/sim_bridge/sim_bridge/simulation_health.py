"""Tells on /diagnostics whether the simulation keeps up and whether the robot is commanded."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

TOLERANCE = 0.95  # of the wanted real-time factor below which the simulation is called slow


class SimulationHealth:
    """Publishes one status, `<node>: simulation`."""

    def __init__(self, node: Node, wanted: float) -> None:
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._name = f"{node.get_fully_qualified_name().lstrip('/')}: simulation"
        self._wanted = wanted

    def publish(self, achieved: float, damped: bool, refused: int, stamp: Time) -> None:
        """Report the real-time factor achieved, whether the joints are damped, and how many commands were refused."""
        slow = achieved < TOLERANCE * self._wanted
        status = DiagnosticStatus(
            name=self._name,
            level=DiagnosticStatus.WARN if slow else DiagnosticStatus.OK,
            message="slower than wanted" if slow else "on time",
        )
        status.values = [
            KeyValue(key="real_time_factor", value=f"{achieved:.3f}"),
            KeyValue(key="wanted_real_time_factor", value=f"{self._wanted:.3f}"),
            KeyValue(key="joints", value="damped" if damped else "following"),
            KeyValue(key="refused_commands", value=str(refused)),
        ]
        message = DiagnosticArray(status=[status])
        message.header.stamp = stamp
        self._publisher.publish(message)
