"""A fake board on a free port, real bridge processes that talk to it, and a client of their topics and services."""

import os
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
import yaml
from ros_fixtures import domain as domain
from ros_fixtures import make_node as make_node
from ros_fixtures import robot as robot
from ros_harness import TIMEOUT, Client, Process, ros_arguments
from std_msgs.msg import String

from fcnet_core.robot import ROBOT_FOLDER
from fcnet_ros.targets import gains_text
from fcnet_ros.topics import IMU, JOINT_GAINS, JOINT_STATES, JOY, ROBOT_OWNERSHIP
from unitree_bridge.ownership import PERIOD as CLAIM_PERIOD
from unitree_lowlevel.codec import GEN33, JOINTS
from unitree_lowlevel.driver import DriverMode
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.fake_board.physics import JointPhysics


class BridgeClient(Client):
    """Commands a robot through its bridge."""

    def __init__(self, domain):
        super().__init__(domain)
        self.gains = JOINT_GAINS.publisher(self.node)
        self.claims = ROBOT_OWNERSHIP.publisher(self.node)
        self.observe(JOY.kind, JOY.name)

    def watch_states(self, count):
        """Wait for so many new joint states and IMU messages and return them."""
        received = [], []
        subscriptions = [
            topic.subscribe(self.node, seen.append) for topic, seen in zip((JOINT_STATES, IMU), received, strict=True)
        ]
        self.until(lambda: all(len(messages) >= count for messages in received), f"{count} states")
        for subscription in subscriptions:
            self.node.destroy_subscription(subscription)
        return received

    def begin(self, board, positions, cycles=1):
        """Damp, then send targets until they are followed in so many of the last cycles, however late this machine's
        programs are; a bridge that gets no time may refuse or trip.
        """
        end, patience = time.monotonic() + TIMEOUT, 0.0
        while time.monotonic() < end:
            patience += 0.1
            if self.fault:
                self.call("aliengo_bridge/reset")
            self.send_targets(None, 0.1)
            self.send_targets(positions, patience + 0.003 * cycles)
            stiff = [command.stiffness.max() for _, command in board.commands.recent[-cycles:]]
            if len(stiff) == cycles and min(stiff) > 0.0:
                return
        raise AssertionError(f"targets are not followed: {self.health}")

    def follow(self, board, positions):
        """Send targets until they are followed with the whole stiffness."""
        self.begin(board, positions, cycles=250)

    def is_followed(self, board, positions):
        """Return whether targets are followed after a damp."""
        self.send_targets(None, 0.2)
        board.commands.reset()
        self.send_targets(positions, 0.5)
        return board.commands.last_stiff() is not None

    def until_driver_mode(self, mode):
        """Wait until new diagnostics have this mode of the motors."""
        self.health = {}
        self.until(lambda: self.health.get("driver_mode") == mode, f"driver mode {mode}")

    def offer_gains(self, kp, kd):
        """Publish the same gains for all joints."""
        self.gains.publish(String(data=gains_text(JOINTS, [kp] * 12, [kd] * 12)))


@pytest.fixture(scope="module")
def board(robot):
    """The motor board of an Aliengo that hangs in its lying pose."""
    with FakeBoard(GEN33, JointPhysics(robot)) as board:
        yield board


# How long an Aliengo waits for a machine that other tests keep busy, where a test is not about that.
PATIENCE = {
    "command_timeout": 1.0,
    "state_timeout": 1.0,
    "max_cycle_gap": 0.5,
    "max_loop_lateness": 1.0,
    "frozen_time": 2.0,
}


@pytest.fixture(scope="module")
def bridge_process(domain, board, tmp_path_factory):
    """Start the Aliengo's bridge; broken: Python that runs before it; modules: folder of modules that it and its I/O
    process import first; prepare: called in the new process.
    """
    content = yaml.safe_load((ROBOT_FOLDER / "aliengo.yaml").read_text())
    content["safety"] |= PATIENCE
    patient = tmp_path_factory.mktemp("robot") / "aliengo.yaml"
    patient.write_text(yaml.safe_dump(content, sort_keys=False))  # the order of joints is that of the wire
    host, port = board.address
    usual = {"network.target": host, "network.port": port, "network.local_port": 0, "robot_file": patient}

    def start(params_file=None, broken="", modules=None, prepare=None, **parameters):
        arguments = ["--ros-args", "--params-file", str(params_file)] if params_file else []
        arguments += ros_arguments(**(usual | parameters))
        program = f"{broken}\nimport sys; from unitree_bridge.hardware import main; sys.exit(main('aliengo'))"
        path = {} if modules is None else {"PYTHONPATH": f"{modules}:{os.environ.get('PYTHONPATH', '')}"}
        return Process([sys.executable, "-c", program, *arguments], domain, path, prepare=prepare)

    return start


@pytest.fixture
def start(bridge_process):
    """Start bridges that talk to the board. Whatever a test leaves running is interrupted: of a killed one its
    client would wait in vain for the service that it still sees.
    """
    with ExitStack() as stack:
        yield lambda **parameters: stack.enter_context(bridge_process(**parameters))


@pytest.fixture(scope="module")
def client(domain):
    with BridgeClient(domain) as client:
        yield client


@pytest.fixture(scope="module")
def running_bridge(bridge_process, client):
    """A bridge that runs; started again if its I/O process did not start in time, as on a busy machine."""
    for _ in range(3):
        with bridge_process(auto_start=True) as program:
            client.health = {}
            client.until(lambda: "driver_mode" in client.health or not program.alive, "a bridge")
            if program.alive:
                yield program
                return
    raise AssertionError(program.output)


@pytest.fixture
def bridge(running_bridge, client, board, robot):
    """A bridge that is active and damps its robot, which is well; whatever was before."""
    board.faults = BoardFaults()
    client.until(lambda: client.call("aliengo_bridge/reset").success, "a reset")
    client.until(lambda: client.fault == "", "no fault")
    client.offer_gains(robot.gains.kp, robot.gains.kd)
    client.until_driver_mode(DriverMode.DAMPING)
    board.commands.reset()
    running_bridge.lines.clear()
    return running_bridge


@pytest.fixture
def following(bridge, client, board, robot):
    """A bridge whose joints follow targets near the lying pose as long as a test keeps sending them."""
    client.follow(board, robot.lie_pose)
    return bridge


@pytest.fixture
def is_damping():
    """Whether a command holds nothing and only resists motion."""
    return lambda command: bool((command.stiffness == 0).all() and (command.damping > 0).all())


@pytest.fixture
def repeated():
    """Publish a message periodically, as a living bridge does its claim, in a `with` block."""

    @contextmanager
    def repeated(publisher, message, period=CLAIM_PERIOD):
        ending = threading.Event()

        def publish():
            while not ending.wait(period):
                publisher.publish(message)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()

    return repeated
