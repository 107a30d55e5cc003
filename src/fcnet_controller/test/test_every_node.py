"""Every node of the suite uses what the SROS 2 policy in config/security grants it, and describes its parameters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementInclude, ElementTree

import pytest
import rclpy
from rcl_interfaces.msg import ParameterType
from ros_harness import TIMEOUT, own_domain, wait_until

from fcnet_controller.controller_node import ControllerNode
from fcnet_controller.descriptions.recording import recorded_topics
from fcnet_controller.parameters import ReplayParameters
from fcnet_controller.replay.bag import read_replay_bag
from fcnet_controller.replay.node import ReplayNode
from fcnet_core.robot import load_robot
from fcnet_ros.hardware_node import HardwareNode
from fcnet_ros.program import SUCCESS, participant_profile
from fcnet_teleop.demo_course import DemoCourse
from fcnet_teleop.monitor.node import Monitor
from fcnet_teleop.teleop_joy import TeleopJoy
from fcnet_teleop.teleop_keyboard import TeleopKeyboard
from sim_bridge.isaac_playback import IsaacPlayback
from sim_bridge.mujoco_board import MujocoBoard
from sim_bridge.mujoco_bridge import MujocoHardware
from unitree_bridge.hardware import UnitreeHardware
from unitree_lowlevel.codec import GEN33
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.physics import JointPhysics

FOLDER = Path(__file__).resolve().parents[3] / "config" / "security"
BAG = FOLDER.parents[1] / "docs" / "examples" / "aliengo_walk"
GRANTS = {"topics": ("publish", "subscribe"), "services": ("reply", "request")}  # elements and their attributes
OPERATOR = "operator"  # an enclave for the command line, no node of the suite
RECORDER = "rosbag2_recorder"
WITH_ODOM = {"mujoco_bridge", "mujoco_board", "isaac_playback"}
NUMBERS = (ParameterType.PARAMETER_INTEGER, ParameterType.PARAMETER_DOUBLE)
BRIDGES = {"aliengo_bridge", "a1_bridge"}


def read_policy():
    """Absolute names by node and direction: publish, subscribe, reply, request; what is included is inserted."""
    root = ElementTree.parse(FOLDER / "fcnet.policy.xml").getroot()
    assert (root.tag, root.get("version")) == ("policy", "0.2.0")
    assert {element.get("xpointer") for element in root.iter(ElementInclude.XINCLUDE_INCLUDE)} == {
        "xpointer(/profile/*)"
    }
    ElementInclude.include(root, base_url=f"{FOLDER}/")
    policy = {}
    for profile in root.findall("enclaves/enclave/profiles/profile"):
        node, namespace = profile.get("node"), profile.get("ns")
        granted = policy.setdefault(node, {})
        for element in profile.iter():
            for direction in GRANTS.get(element.tag, ()):
                if element.get(direction) == "ALLOW":
                    names = (absolute(entry.text, node, namespace) for entry in element)
                    granted.setdefault(direction, set()).update(names)
    return policy


def absolute(name, node, namespace):
    if name.startswith("/"):
        return name
    return f"{namespace.rstrip('/')}/{name.replace('~', node, 1)}"


@pytest.fixture(scope="module")
def nodes():
    """What ROS itself says of every node of the suite: see `collect`.

    In a process of its own: what managed nodes leave in the graph goes with it.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # also the harness
    with own_domain() as domain:
        command = [sys.executable, __file__, str(domain)]
        collected = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=True
        )
    return json.loads(collected.stdout.splitlines()[-1])


def collect(domain):
    """Make the nodes in a ROS domain; return by node what each uses and how its parameters are described."""
    with ExitStack() as stack, FakeBoard(GEN33, JointPhysics(load_robot("aliengo"))) as board:
        host, port = board.address
        network = {"network.target": host, "network.port": port, "network.local_port": 0}
        given = {f"aliengo_bridge:{name}": value for name, value in network.items()}
        given |= {f"{node}:bridge": "aliengo_bridge" for node in ("monitor", "teleop_joy", "teleop_keyboard")}
        given |= {"monitor:port": 0, "isaac_playback:live": "127.0.0.1:0", "mujoco_board:port": 0}
        given |= {"mujoco_bridge:clock": True}
        given |= {f"{node}:use_sim_time": True for node in ("controller", "demo_course", "monitor")}  # beside a clock
        arguments = [text for name, value in given.items() for text in ("-p", f"{name}:={value}")]
        with participant_profile():
            rclpy.init(args=["--ros-args", *arguments], domain_id=domain)
            stack.callback(rclpy.shutdown)
            controller = ControllerNode()
            stack.callback(controller.destroy_node)
        assert controller.trigger_configure() == SUCCESS
        collected = uses_of(controller)
        for name, hardware in (("aliengo_bridge", UnitreeHardware("aliengo")), ("mujoco_bridge", MujocoHardware())):
            node = HardwareNode(name, hardware)  # one robot after the other: a namespace has only one
            stack.callback(node.destroy_node)
            assert node.trigger_configure() == SUCCESS
            collected |= uses_of(node)
            node.leave_robot()
        others = [make() for make in (DemoCourse, Monitor, TeleopJoy, TeleopKeyboard, IsaacPlayback, MujocoBoard)]
        others.append(ReplayNode(read_replay_bag(str(BAG), ""), ReplayParameters(bag=str(BAG))))
        others[-1].start()
        for node in others:
            stack.callback(node.destroy_node)
            collected |= uses_of(node)
        return collected


def uses_of(node):
    return {node.get_name(): {"uses": names_of(node), "parameters": descriptors_of(node)}}


def names_of(node):
    """What the ROS graph has of a node, as soon as all that rclpy knows of is there; the graph lags behind."""
    who = node.get_name(), node.get_namespace()
    ways = {
        "publish": (node.get_publisher_names_and_types_by_node, {one.topic_name for one in node.publishers}),
        "subscribe": (node.get_subscriber_names_and_types_by_node, {one.topic_name for one in node.subscriptions}),
        "reply": (node.get_service_names_and_types_by_node, {one.service_name for one in node.services}),
        "request": (node.get_client_names_and_types_by_node, {one.service_name for one in node.clients}),
    }
    found = {}

    def is_complete():
        found.update({way: [name for name, _ in names(*who)] for way, (names, _) in ways.items()})
        return all(made <= set(found[way]) for way, (_, made) in ways.items())

    wait_until(is_complete, f"all of {who} in the graph")
    return {way: names for way, names in found.items() if names}


def descriptors_of(node):
    """Description, type and number of ranges of every parameter, as describe_parameters responds."""
    names = node.list_parameters([], 0).names
    return {
        found.name: (found.description, found.type, len(found.floating_point_range) + len(found.integer_range))
        for found in node.describe_parameters(names)
    }


def test_every_node_is_granted_what_it_uses_and_nothing_more(nodes):
    policy = read_policy()
    used = {node: {way: set(names) for way, names in found["uses"].items()} for node, found in nodes.items()}
    bridge = used["aliengo_bridge"]
    states = {"/imu/data", "/joint_states"}  # of another robot, listened to while it starts
    bridge["subscribe"] |= states
    used["mujoco_bridge"]["subscribe"] |= states | {"/clock"}
    used["isaac_playback"]["subscribe"] |= states
    used["controller"]["subscribe"] |= {"/joint_trajectory"}  # of another controller
    for node in used.values():
        node["publish"] |= {"/diagnostics"}  # of the topic watch of every program
    used["a1_bridge"] = {
        direction: {name.replace("aliengo_bridge", "a1_bridge") for name in names}
        for direction, names in bridge.items()
    }
    for name in ("monitor", "teleop_joy", "teleop_keyboard"):  # of either robot, by a parameter
        requests = used[name]["request"]
        requests |= {request.replace("aliengo_bridge", "a1_bridge") for request in requests}
    used[RECORDER] = {"subscribe": set(recorded_topics(""))}
    assert set(policy) == set(used) | {OPERATOR}
    for node, names in used.items():
        granted = policy[node]
        if node == RECORDER:  # a program of the distribution, whose parameters and services it knows
            granted = {"subscribe": granted["subscribe"]}
        if node in WITH_ODOM | {RECORDER}:  # only a distribution has its message
            assert granted["subscribe" if node == RECORDER else "publish"] >= {"/tf"}
            granted = {way: found - {"/tf"} for way, found in granted.items()}
        assert granted == {way: found - {"/tf"} for way, found in names.items()}, node


def test_every_parameter_of_every_node_has_a_description_and_every_number_a_range(nodes):
    for node, found in nodes.items():
        assert {"use_sim_time"} < set(found["parameters"])
        for name, (description, kind, ranges) in found["parameters"].items():
            assert description, (node, name)
            assert ranges == (kind in NUMBERS), (node, name)


@pytest.mark.parametrize(
    ("topic", "publishers"),
    [
        ("/joint_trajectory", {"controller"}),
        ("/joint_gains", {"controller"}),
        ("/robot_ownership", BRIDGES),
        ("/robot_fault", BRIDGES | {"mujoco_bridge"}),
        ("/target_refusal", BRIDGES | {"mujoco_bridge"}),
        ("/joint_states", BRIDGES | {"mujoco_bridge", "isaac_playback", "replay"}),
    ],
)
def test_what_moves_a_robot_and_its_states_are_published_by_one_kind_of_node_alone(topic, publishers):
    assert {node for node, granted in read_policy().items() if topic in granted.get("publish", set())} == publishers


def test_the_governance_leaves_nobody_out_of_authentication_and_access_control():
    rule = ElementTree.parse(FOLDER / "governance.xml").getroot().find("domain_access_rules/domain_rule")
    assert rule.findtext("allow_unauthenticated_participants") == "false"
    assert rule.findtext("enable_join_access_control") == "true"
    (topics,) = rule.findall("topic_access_rules/topic_rule")
    assert topics.findtext("topic_expression") == "*"
    assert topics.findtext("enable_read_access_control") == topics.findtext("enable_write_access_control") == "true"
    assert topics.findtext("data_protection_kind") in ("SIGN", "ENCRYPT")


if __name__ == "__main__":
    print(json.dumps(collect(int(sys.argv[1]))), flush=True)
