"""A walking robot goes on when another program publishes what its own do; a second controller is refused."""

import pytest
from ros_harness import Client
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import String

from fcnet_core.names import CONTROLLER, HealthKey, Mode
from fcnet_ros.topics import IMU, JOINT_STATES, ROBOT_FAULT, TARGET_REFUSAL

INTERVAL = 1 / 300  # [s]


@pytest.fixture
def flood(domain):
    """Publish a message from another node until the end of the test."""
    with Client(domain, "stranger") as stranger:

        def flood(topic, message):
            publisher = topic.publisher(stranger.node)
            stranger.node.create_timer(INTERVAL, lambda: publisher.publish(message))

        yield flood


def zeros(robot):
    """The joint states of a joint_state_publisher, far from where the robot stands."""
    return JointState(name=robot.joint_names, position=[0.0] * 12, velocity=[0.0] * 12)


def upside_down():
    imu = Imu()
    imu.orientation.x = 1.0
    return imu


@pytest.mark.parametrize("topic", [JOINT_STATES, IMU, ROBOT_FAULT, TARGET_REFUSAL], ids=lambda topic: topic.name)
def test_a_walking_robot_ignores_a_second_publisher_of_what_its_bridge_publishes_and_reports_it(
    start, bench, robot, model_path, flood, topic
):
    bench.begin_again()
    if topic.kind is String:
        topic.publisher(bench.node).publish(String(data=""))
    program = start(policy=model_path, auto_start=True, stand_up_time=1.5)
    bench.until_mode(Mode.WALKING)
    states = {JOINT_STATES.name: zeros(robot), IMU.name: upside_down()}
    flood(topic, states.get(topic.name, String(data="another robot has tripped")))
    reported = program.until_printed(f"{topic.name} of .* is ignored.*")[0]
    assert "/stranger" in reported
    assert "/bench" in reported
    seen = int(bench.health[HealthKey.CYCLES])
    bench.until(lambda: int(bench.health[HealthKey.CYCLES]) > seen + 50 or bench.mode != Mode.WALKING, "cycles")
    assert bench.mode == Mode.WALKING
    assert program.end() == 0, program.output


def test_nobody_stands_up_on_states_of_two_robots_and_a_second_controller_is_refused(
    start, bench, robot, model_path, flood
):
    bench.begin_again()
    flood(JOINT_STATES, zeros(robot))
    program = start(policy=model_path, auto_start=True, stand_up_time=1.5)
    bench.until_mode(Mode.PASSIVE)
    program.until_printed("joint_states of .* is ignored")
    response = bench.call("controller/stand_up")
    assert not response.success
    assert "/stranger" in response.message
    assert "/bench" in response.message
    second = start(policy=model_path, auto_activate=True)
    assert second.wait() == 1, second.output
    assert f"/{CONTROLLER} publishes /joint_trajectory" in second.output
    assert "namespace:=" in second.output
    assert bench.mode == Mode.PASSIVE
    program.end()


def test_without_a_clock_a_controller_in_simulated_time_does_not_stand_up(start, bench, model_path):
    bench.begin_again()
    program = start(policy=model_path, auto_activate=True, use_sim_time=True)
    bench.until_mode(Mode.PASSIVE)
    response = bench.call("controller/stand_up")
    assert not response.success
    assert "/clock" in response.message
    program.end()
