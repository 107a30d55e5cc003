"""A fake board on a free port, real bridge processes that talk to it, and a person with topics and services."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import Imu, JointState, Joy
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from fcnet_core.robot import JOINT_NAMES, load_robot
from fcnet_ros.program import participant_profile
from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.fake_board.physics import JointPhysics

PATIENCE = 30.0  # [s], for a loaded machine
ASK_INTERVAL = 10.0  # [s]
COMMAND_PERIOD = 0.02  # [s]
DOMAINS = itertools.count(os.getpid() % 80)


class Program:
    """A bridge in a process of its own, with everything it prints.

    broken: Python that runs before it, to break a part; prepare: called in the new process before all else.
    """

    def __init__(self, domain, robot, params_file=None, broken="", prepare=None, **parameters):
        arguments = ["--params-file", str(params_file)] if params_file else []
        arguments += [text for name, value in parameters.items() for text in ("-p", f"{name}:={value}")]
        environment = os.environ | {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        program = f"{broken}\nimport sys; from unitree_bridge.bridge_node import main; sys.exit(main({robot!r}))"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "--ros-args", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment | {"OMP_NUM_THREADS": "1"},
            preexec_fn=prepare,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def output(self):
        """All that was printed so far."""
        return "".join(self.lines)

    def wait(self):
        """The exit code, once it ends by itself."""
        code = self.process.wait(PATIENCE)
        self._reader.join(5.0)
        return code

    def end(self, number=signal.SIGINT):
        """Send a signal, then as `wait`."""
        self.process.send_signal(number)
        return self.wait()

    def clean_up(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.wait()
        self.process.stdout.close()


class Person:
    """Sees and commands a robot through the bridge's topics and services alone."""

    def __init__(self, domain):
        os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
        self._context = rclpy.Context()
        with participant_profile():
            rclpy.init(context=self._context, domain_id=domain)
            self.node = rclpy.create_node("person", context=self._context)
        self.faults, self.health, self.joy, self.joints, self.imu = [], {}, None, None, None
        self._targets = self.node.create_publisher(JointTrajectory, "joint_trajectory", 1)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.gains = self.node.create_publisher(String, "joint_gains", latched)
        self.node.create_subscription(String, "robot_fault", lambda message: self.faults.append(message.data), latched)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._hear, 10)
        self.node.create_subscription(Joy, "joy", lambda message: setattr(self, "joy", message), 10)
        self._closed = threading.Event()
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        while not self._closed.is_set():
            self._executor.spin_once(timeout_sec=0.05)

    def _hear(self, message):
        self.health = {pair.key: pair.value for pair in message.status[0].values}

    @property
    def fault(self):
        """What robot_fault says, None before it has said anything."""
        return self.faults[-1] if self.faults else None

    def watch_states(self, seconds):
        """The joint states and IMU messages that come in so many seconds."""
        seen = {JointState: [], Imu: []}
        subscriptions = [
            self.node.create_subscription(kind, topic, seen[kind].append, qos_profile_sensor_data)
            for kind, topic in ((JointState, "joint_states"), (Imu, "imu/data"))
        ]
        self.until(lambda: all(seen.values()), "states")
        for messages in seen.values():
            messages.clear()
        time.sleep(seconds)
        counted = [list(messages) for messages in seen.values()]
        for subscription in subscriptions:
            self.node.destroy_subscription(subscription)
        return counted

    def send(self, positions, seconds=0.0, names=JOINT_NAMES):
        """Send targets every 20 ms for some seconds, at least once; None asks for damping."""
        point = JointTrajectoryPoint()
        if positions is None:
            point.velocities = [0.0] * 12
        else:
            point.positions = [float(position) for position in positions]
        end = time.monotonic() + seconds
        while True:
            self._targets.publish(JointTrajectory(joint_names=list(names), points=[point]))
            if time.monotonic() >= end:
                return
            time.sleep(COMMAND_PERIOD)

    def move(self, begin, end, seconds):
        """Send targets on the way from one pose to another, every 20 ms."""
        began = time.monotonic()
        while (share := (time.monotonic() - began) / seconds) < 1.0:
            self.send(begin + share * (end - begin))
            time.sleep(COMMAND_PERIOD)
        self.send(end)

    def begin(self, board, positions):
        """Damp, then send targets until they are followed; a bridge that gets no time on this machine may refuse."""
        for _ in range(10):
            self.send(None, 0.1)
            self.send(positions, 0.1)
            if board.commands.last.stiffness.max() > 0.0:
                return

    def until(self, condition, what, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {patience:g} s ({self.fault!r}, {self.health})"
            time.sleep(0.005)

    def until_phase(self, phase):
        self.health = {}
        self.until(lambda: self.health.get("phase") == phase, f"phase {phase}")

    def answer(self, client, request, name):
        """Ask, again after some time: a request that is sent before the server has found this client is lost."""
        began, asked = time.monotonic(), []

        def is_answered():
            if time.monotonic() - began >= ASK_INTERVAL * len(asked):
                asked.append(client.call_async(request))
            return any(future.done() for future in asked)

        self.until(is_answered, f"answer of {name}")
        return next(future.result() for future in asked if future.done())

    def call(self, name, kind=Trigger, **request):
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, f"service {name}")
        answer = self.answer(client, kind.Request(**request), name)
        self.node.destroy_client(client)
        return answer

    def stop(self, name):
        return self.call(f"{name}/emergency_stop", SetBool, data=True)

    def change(self, name, transition):
        """Ask a managed node for a transition, such as "configure"; whether it made it."""
        number = getattr(Transition, f"TRANSITION_{transition.upper()}")
        return self.call(f"{name}/change_state", ChangeState, transition=Transition(id=number)).success

    def close(self):
        self._closed.set()
        self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@pytest.fixture(scope="session")
def robot():
    return load_robot("aliengo")


@pytest.fixture(scope="module")
def domain():
    return 1 + next(DOMAINS) % 100


@pytest.fixture(scope="module")
def board(robot):
    """The motor board of an Aliengo that hangs in its lying pose."""
    with FakeBoard(GEN33, JointPhysics(robot)) as board:
        yield board


def bridge_program(domain, board, robot="aliengo", **parameters):
    host, port = board.address
    network = {"network.target": host, "network.port": port, "network.local_port": 0}
    return Program(domain, robot, **(network | parameters))


@pytest.fixture
def start(domain, board):
    """Start bridges that talk to the board; whatever a test leaves running is ended."""
    programs = []

    def start(**parameters):
        programs.append(bridge_program(domain, board, **parameters))
        return programs[-1]

    yield start
    for program in programs:
        program.clean_up()


@pytest.fixture(scope="module")
def person(domain):
    person = Person(domain)
    yield person
    person.close()


@pytest.fixture(scope="module")
def running_bridge(domain, board, person):
    program = bridge_program(domain, board, auto_start=True)
    person.until(lambda: person.fault == "", "a bridge")
    yield program
    program.clean_up()


@pytest.fixture
def bridge(running_bridge, person, board, robot):
    """A bridge that is active and damps its robot, which is well; whatever was before."""
    board.faults = BoardFaults()
    person.until(lambda: person.call("aliengo_bridge/reset").success, "a reset")
    person.until(lambda: person.fault == "", "no fault")
    offer_gains(person, robot.gains.kp, robot.gains.kd)
    person.until_phase("damping")
    board.commands.reset()
    running_bridge.lines.clear()
    return running_bridge


@pytest.fixture
def following(bridge, person, board, robot):
    """A bridge whose joints follow targets near the lying pose; somebody must keep sending."""
    person.begin(board, robot.lie_pose)
    person.send(robot.lie_pose, 0.6)
    assert board.commands.last.stiffness.max() > 0.0, bridge.output
    return bridge


def offer_gains(person, kp, kd):
    gains = {"kp": dict.fromkeys(JOINT_NAMES, kp), "kd": dict.fromkeys(JOINT_NAMES, kd)}
    person.gains.publish(String(data=json.dumps(gains)))


@pytest.fixture
def is_damping():
    """Whether a command holds nothing and only resists motion."""
    return lambda command: bool((command.stiffness == 0).all() and (command.damping > 0).all())


@pytest.fixture
def assert_refused():
    """That a bridge ends by itself with one sentence, which has these words."""

    def assert_refused(program, *words):
        assert program.wait() not in (0, None)
        assert "Traceback" not in program.output
        for word in words:
            assert word in program.output
        assert len(program.output.strip().splitlines()) == 1, program.output

    return assert_refused
