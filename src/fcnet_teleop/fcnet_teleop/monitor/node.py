"""The monitor's node: connects a robot's topics and services with the server of the pages."""

import queue
import secrets
import time

from rclpy.node import Node
from sensor_msgs.msg import PointCloud2

from fcnet_core.errors import MessageError
from fcnet_core.names import Request
from fcnet_core.robot import load_robot
from fcnet_ros.parameters import declare_fixed_parameters
from fcnet_ros.program import Stop, run_program, spin
from fcnet_ros.topics import TERRAIN, WARNING_PERIOD, steady_timer
from fcnet_teleop.commands import CommandPublisher, ModeClient, StyleClient
from fcnet_teleop.controls import load_remote_control
from fcnet_teleop.monitor.driver import PageDriver, PageRequest, too_late
from fcnet_teleop.monitor.server import Controls, MonitorServer, is_loopback, own_address
from fcnet_teleop.monitor.view import RobotStatus, RobotView, ground_facts, page_facts
from fcnet_teleop.parameters import MonitorParameters

SOURCE = "monitor"
STATUS_PERIOD = 0.2  # [s]
COMMAND_PERIOD = 1 / 30  # [s]
TOKEN_BYTES = 16  # of randomness


class Monitor(Node):
    """Sends snapshots and status to the pages, publishes their command and forwards their requests.

    Raises ValueError for a wrong parameter.
    """

    def __init__(self) -> None:
        super().__init__("monitor")
        chosen = declare_fixed_parameters(self, MonitorParameters)
        robot, remote = load_robot(chosen.robot), load_remote_control(chosen.remote_file)
        self._driver = PageDriver(robot.commands)
        self._status = RobotStatus(self, chosen.controller, on_fault=self._release)
        self._view = RobotView(self, robot, chosen.controller, remote, chosen.use_stamped_cmd_vel)
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._requested = self.create_guard_condition(self._forward_requests)
        controls = None
        if not chosen.watch_only:
            self._commands = CommandPublisher(self, remote.source(SOURCE), chosen.use_stamped_cmd_vel)
            self._modes = ModeClient(self, chosen.controller, chosen.bridge, self._status.add_response)
            self._style = StyleClient(self, chosen.controller, self._status.add_response)
            steady_timer(self, COMMAND_PERIOD, self._publish_command)
            controls = Controls(lambda command: self._driver.update(command, time.monotonic()), self._request)
        facts = {**page_facts(robot, remote, SOURCE), "watch_only": chosen.watch_only}
        token = "" if is_loopback(chosen.host) else secrets.token_urlsafe(TOKEN_BYTES)
        try:
            self._server = MonitorServer(chosen.host, chosen.port, facts, controls, token)
        except (OSError, UnicodeError) as error:
            raise ValueError(
                f"cannot listen at {chosen.host} port {chosen.port} ({error}); stop the other monitor, or choose "
                "another port, or an address of this computer as host"
            ) from error
        steady_timer(self, 1 / chosen.frame_rate, self._send_snapshot)
        steady_timer(self, STATUS_PERIOD, lambda: self._server.publish("status", self._status.as_json(), retained=True))
        TERRAIN.subscribe(self, self._send_ground)
        self._show_address(chosen, token)

    def run(self, stop: Stop) -> int:
        """Serve pages until `stop` is set; then publish zero velocity if the robot is driven."""
        try:
            spin(self, stop)
        finally:
            self._server.close()
            if self._driver.command(time.monotonic()).velocity is not None:
                self._commands.stop()
        return 0

    def _release(self) -> None:
        self._driver.release(time.monotonic())

    def _request(self, request: Request, page: PageRequest | None) -> str:
        """Queue a page's request (server thread) for the node's thread; return why it is rejected, or ""."""
        if page and (late := too_late(page.seen, time.monotonic())):
            return late
        if request is not Request.WALK:
            self._release()
        self._requests.put(request)
        self._requested.trigger()
        return ""

    def _forward_requests(self) -> None:
        while not self._requests.empty():
            request = self._requests.get()
            self.get_logger().info(f"{request.value} requested by a page")
            self._modes.request(request)

    def _publish_command(self) -> None:
        self._commands.publish(self._driver.command(time.monotonic()))
        self._style.request(self._driver.take_style())

    def _send_snapshot(self) -> None:
        if self._server.watchers:
            self._server.publish("snapshot", self._view.snapshot())

    def _send_ground(self, cloud: PointCloud2) -> None:
        try:
            self._server.publish("ground", ground_facts(cloud), retained=True)
        except MessageError as error:
            self.get_logger().warning(str(error), throttle_duration_sec=WARNING_PERIOD)

    def _show_address(self, chosen: MonitorParameters, token: str) -> None:
        address = f"http://{own_address(chosen.host)}:{self._server.port}"
        if not token:
            self.get_logger().info(f"open {address} in a browser")
            return
        print(f"open {address}/?token={token} in a browser", flush=True)  # not logged: /rosout is public and recorded
        self.get_logger().warning(
            f"host is {chosen.host}: everybody who has the link above, or listens to this network, can "
            f"{'watch' if chosen.watch_only else 'move'} the robot; use a private network, or host 127.0.0.1 and an "
            "ssh tunnel"
        )


def main() -> int:
    """Run the monitor until a signal; return the exit code, 2 for a wrong parameter or a port in use."""
    return run_program("monitor", Monitor, Monitor.run)
