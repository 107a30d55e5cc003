"""How programs begin, find each other, wait for a recorder and end with their launch; most in a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from rclpy.qos import qos_profile_sensor_data
from ros_harness import wait_until
from std_msgs.msg import String
from std_srvs.srv import Trigger

from fcnet_ros.program import (
    DISCOVERY_RANGE,
    LOCALHOST_ONLY,
    PROFILES,
    RECORDER,
    TRANSPORTS,
    GuardedExecutor,
    RecorderGate,
    participant_profile,
)

PATIENCE = 60.0  # [s], for a loaded machine
STARTS = 12
DISCOVERY_TIME = 1.5  # [s]; with announcements every 3 s a third of the starts take longer
PROGRAM = """
import os, subprocess, sys
from rclpy.node import Node
from std_msgs.msg import String
from fcnet_ros.program import run_program, spin
def make():
    {make}
    node = Node("older")
    node.create_publisher(String, "topic", 1)
    return node
def run(node, stop):
    {run}
    print("ready", flush=True)
    stop.wait()
    return 5
sys.exit(run_program("older", make, run))
"""
NEWCOMER = f"""
import time
import rclpy
from std_msgs.msg import String
from fcnet_ros.program import participant_profile
for _ in range({STARTS}):
    context = rclpy.Context()
    with participant_profile():
        began = time.monotonic()
        rclpy.init(context=context)
        node = rclpy.create_node("newcomer", context=context)
    node.create_subscription(String, "topic", lambda message: None, 1)
    while not node.count_publishers("topic") and time.monotonic() < began + {PATIENCE}:
        time.sleep(0.005)
    print(time.monotonic() - began, flush=True)
    node.destroy_node()
    rclpy.shutdown(context=context)
"""
FAILING = """
    class Failing(Node):
        fine = calls = 0
        def tick(self):
            self.calls += 1
            if self.calls % 2:
                raise ZeroDivisionError("a callback that is broken")
            self.fine += 1
    node = Failing("older")
    node.create_timer(0.01, node.tick)
    return node
"""
ENDLESS = {
    "make": """import time
    print("ready", flush=True)
    while True: time.sleep(0.01)
""",
    "work": """import time
    from fcnet_ros.program import interruptible
    with interruptible():
        print("ready", flush=True)
        while True: time.sleep(0.01)
""",
}
CHILD = """
import os
print(sorted(name for name in os.environ if "FAST" in name), os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"])
"""


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch):
    for name in (*PROFILES, TRANSPORTS, "RMW_IMPLEMENTATION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def start(run):
    """Start PROGRAM with these lines in its functions."""
    return lambda make="pass", work="pass": run([sys.executable, "-c", PROGRAM.format(make=make, run=work)])


def test_no_start_waits_for_an_announcement_that_comes_every_three_seconds(start, run):
    start().until_printed("ready")
    newcomer = run([sys.executable, "-c", NEWCOMER])
    assert newcomer.wait(2 * PATIENCE) == 0
    times = sorted(map(float, newcomer.output.split()))
    assert len(times) == STARTS
    assert times[-2] < DISCOVERY_TIME, times  # one may be late because the machine is busy


def test_a_signal_ends_the_program_with_the_exit_code_of_its_work_and_child_processes_do_not_inherit_the_profile(start):
    program = start(work=f"subprocess.run([sys.executable, '-c', {CHILD!r}])")
    program.until_printed("ready")
    assert program.end(signal.SIGTERM) == 5
    assert program.output == "[] LOCALHOST\nready\n"


@pytest.mark.parametrize(("stage", "number"), [("make", signal.SIGINT), ("work", signal.SIGTERM)])
def test_a_signal_ends_a_start_that_takes_long_at_once_and_well(start, stage, number):
    program = start(**{stage: ENDLESS[stage]})
    program.until_printed("ready")
    assert program.end(number) == 0
    assert program.output == "ready\n"


FLOOD = """import threading, time
    flood = threading.Thread(target=lambda: [(os.kill(os.getpid(), 15), time.sleep(1e-5)) for _ in range(300)])
    flood.start()
    while flood.is_alive():
        stop.set()
"""


def test_a_signal_that_comes_while_a_stop_is_requested_does_not_wait_for_ever(start):
    assert start(work=FLOOD).wait(PATIENCE) == 5


def test_a_refusal_is_a_sentence_and_exit_code_2_and_an_error_at_work_keeps_its_traceback(start):
    program = start(make="raise ValueError('there is no such robot')")
    assert program.wait(PATIENCE) == 2
    assert program.output == "older: there is no such robot\n"
    program = start(work="raise ValueError('a defect')")
    assert program.wait(PATIENCE) == 1
    assert "Traceback" in program.output


@pytest.mark.parametrize("variable", [*PROFILES, TRANSPORTS, "RMW_IMPLEMENTATION"])
@pytest.mark.parametrize("udp_only", [False, True])
def test_settings_of_the_user_are_left_alone(monkeypatch, variable, udp_only):
    monkeypatch.setenv(variable, "mine")
    before = dict(os.environ)
    with participant_profile(udp_only):
        assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("udp_only", "variable", "limit", "profile", "limited_by_ros"),
    [
        (False, DISCOVERY_RANGE, "LOCALHOST", "fastdds_announcement.xml", True),
        (False, DISCOVERY_RANGE, "SUBNET", "fastdds_announcement.xml", False),
        (True, DISCOVERY_RANGE, "LOCALHOST", "fastdds_udp_loopback.xml", False),
        (True, LOCALHOST_ONLY, "1", "fastdds_udp_loopback.xml", False),
        (True, DISCOVERY_RANGE, "SUBNET", "fastdds_udp.xml", False),
    ],
)
def test_the_profile_fits_the_range_of_discovery(monkeypatch, udp_only, variable, limit, profile, limited_by_ros):
    for name in (DISCOVERY_RANGE, LOCALHOST_ONLY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, limit)
    before = dict(os.environ)
    with participant_profile(udp_only):
        assert os.environ[PROFILES[0]].endswith(f"/{profile}")
        assert (os.environ[DISCOVERY_RANGE] == "LOCALHOST") is limited_by_ros
        assert LOCALHOST_ONLY not in os.environ
    assert dict(os.environ) == before


def test_a_callback_that_fails_is_reported_and_the_node_goes_on(start):
    program = start(make=FAILING, work="spin(node, stop, lambda: node.fine == 3)")
    program.until_printed("ready")
    assert program.end() == 5
    report, ready = program.output.splitlines()  # a report for each place once in a while
    assert "ZeroDivisionError" in report
    assert ready == "ready"


def test_a_service_that_fails_responds_with_not_done(make_node):
    node = make_node("guarded")

    def fail(_request, _response):
        raise ZeroDivisionError("a service that is broken")

    node.create_service(Trigger, "broken", fail)
    executor, client = GuardedExecutor(node), node.create_client(Trigger, "broken")
    assert client.wait_for_service(PATIENCE)
    response = client.call_async(Trigger.Request())
    wait_until(lambda: executor.spin_once(timeout_sec=0.1) or response.done(), "a response")
    executor.shutdown()
    assert response.result().success is False


RECORDED = ("states", "~/mode")


@pytest.fixture
def robot(make_node):
    node = make_node("robot", namespace="dog")
    for topic in RECORDED:
        node.create_publisher(String, topic, qos_profile_sensor_data)
    return node


def subscribe(node, *topics):
    for topic in topics:
        node.create_subscription(String, topic, lambda message: None, qos_profile_sensor_data)


def test_it_opens_when_the_recorder_has_every_topic_and_not_for_another_subscriber(robot, make_node):
    gate = RecorderGate(robot, RECORDED, PATIENCE)
    subscribe(make_node("monitor", namespace="dog"), "states", "robot/mode")
    recorder = make_node(RECORDER, namespace="dog")
    subscribe(recorder, "states")
    wait_until(lambda: len(robot.get_subscriptions_info_by_topic("/dog/states")) == 2, "both subscribers")
    time.sleep(0.5)
    assert not gate.check()
    subscribe(recorder, "robot/mode")
    began = time.monotonic()
    gate.wait(threading.Event())
    assert gate.is_open
    assert time.monotonic() < began + PATIENCE / 2


def test_it_opens_without_a_recorder_after_its_timeout_and_a_stop_ends_the_waiting(robot):
    assert RecorderGate(robot, RECORDED, 0.0).is_open
    gate, began, stop = RecorderGate(robot, RECORDED, 0.5), time.monotonic(), threading.Event()
    gate.wait(stop)
    assert gate.is_open
    assert time.monotonic() >= began + 0.5
    stop.set()
    gate = RecorderGate(robot, RECORDED, PATIENCE)
    gate.wait(stop)
    assert not gate.is_open  # the stop has ended the waiting


# A process ends with the launch that has started it.

# Says its process id once it has made its request, and its exit code is 7 after the signal.
LAUNCHED = """
import os, signal, sys, time
from fcnet_ros.launched import LAUNCH, SIGNAL, end_with_launch
signal.signal(SIGNAL, lambda number, frame: sys.exit(7))
{before}
end_with_launch()
print(os.getpid(), LAUNCH in os.environ, flush=True)
time.sleep(600)
"""
# Starts the command of its arguments and waits, as a launch does.
LAUNCH_PROGRAM = """
import os, subprocess, sys
from fcnet_ros.launched import launched
subprocess.run(sys.argv[1:], env=os.environ | launched())
"""
OTHER = "import os, time; print(os.getpid(), 'FCNET_LAUNCH' in os.environ, flush=True); time.sleep(600)"


@pytest.fixture
def launch():
    """Start a program that launches a command; the command has ended when nobody holds the launch's stdout open."""
    processes = []

    def launch(*command, wait_for_line=True):
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH_PROGRAM, *command], text=True, stdout=subprocess.PIPE, start_new_session=True
        )
        processes.append(process)
        return process, process.stdout.readline().split() if wait_for_line else []

    yield launch
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "-c", LAUNCHED.format(before="")], id="a program of the suite"),
        pytest.param([sys.executable, "-m", "fcnet_ros.launched", sys.executable, "-c", OTHER], id="another program"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_ends_with_its_launch_that_is_killed(launch, command, number):
    process, (_pid, inherits) = launch(*command)
    assert inherits == "False"
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)  # returns at the end of all that hold the pipe


def test_a_process_that_asks_after_the_end_of_its_launch_ends_too(launch):
    waiting = "parent = os.getppid(); print('started', flush=True)\nwhile os.getppid() == parent: time.sleep(0.01)"
    process, (word,) = launch(sys.executable, "-c", LAUNCHED.format(before=waiting))
    assert word == "started"
    process.kill()
    assert process.communicate(timeout=PATIENCE)[0] == ""


def test_a_process_behind_another_program_runs_on_while_its_launch_lives(launch):
    wrapper = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    process, (pid, _) = launch(sys.executable, "-c", wrapper, sys.executable, "-c", LAUNCHED.format(before=""))
    os.kill(int(pid), 0)
    process.kill()
