"""A robot that follows its targets, a client that observes it, and the programs under test as processes."""

import time

import pytest
from geometry_msgs.msg import Twist
from ros_fixtures import client as client
from ros_fixtures import domain as domain
from ros_fixtures import make_node as make_node
from ros_fixtures import robot as robot
from ros_fixtures import run as run
from ros_fixtures import start as start
from ros_harness import IdealRobot, wait_until
from std_srvs.srv import SetBool, Trigger


@pytest.fixture(scope="module")
def ideal_robot(domain, robot):
    with IdealRobot(domain, robot) as ideal:
        yield ideal


@pytest.fixture(scope="session")
def is_silent():
    """Whether no message is added to a list for a while."""

    def is_silent(messages):
        before = len(messages)
        time.sleep(0.5)
        return len(messages) == before

    return is_silent


@pytest.fixture
def velocities(client):
    """Forward velocities that the monitor publishes [m/s]."""
    received = []
    client.subscribe(Twist, "monitor/cmd_vel", lambda message: received.append(message.linear.x), 10)
    return received


class Services:
    """Services of nodes that do nothing. requests: names of those that were called; refused: names to refuse."""

    def __init__(self, client):
        self.requests, self.refused, self._services = [], [], []
        self._node = client.node

    def add(self, *names):
        for name in names:
            kind = SetBool if name.endswith("emergency_stop") else Trigger
            self._services.append(self._node.create_service(kind, name, lambda _, r, name=name: self._respond(name, r)))

    def _respond(self, name, response):
        self.requests.append(name)
        response.success, response.message = name not in self.refused, f"done: {name}"
        return response

    def until(self, name, act):
        """Act until the service has been called: it may not be discovered at first."""

        def is_called():
            if name not in self.requests:
                act()
                time.sleep(0.3)
            return name in self.requests

        wait_until(is_called, f"a request {name}")

    def close(self):
        for service in self._services:
            self._node.destroy_service(service)


def run_services(client):
    services = Services(client)
    yield services
    services.close()


services = pytest.fixture(run_services)
module_services = pytest.fixture(scope="module")(run_services)
