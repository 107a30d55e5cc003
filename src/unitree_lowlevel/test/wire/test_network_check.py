"""What can be known about a network before a datagram is sent; each refusal says what to do."""

import subprocess
import sys

import pytest

from fcnet_core.errors import TransportError
from unitree_lowlevel.network import bound_socket, check_target, resolve


def refusal(check, *arguments):
    with pytest.raises(TransportError) as caught:
        check(*arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def refusal_elsewhere(call, *prefix, before="pass"):
    """Return the refusal of a check in a program of its own, "" without one."""
    script = (
        "import os\nfrom fcnet_core.errors import TransportError\nfrom unitree_lowlevel import network\n"
        f"try:\n    {before}\n    network.{call}\nexcept TransportError as error: print(error)"
    )
    program = [*prefix, sys.executable, "-c", script]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "host",
    [
        *("192.168.123.300", "192.168.123", "192.168.123.10.1", "10", "..", "1.2.3.04"),  # no IPv4 addresses
        *("", "no-such-robot.invalid", "192.168.123.10:8007", "a" * 300, "::1", "ä..b"),  # no known names
        *("0.0.0.0", "255.255.255.255", "224.0.0.1"),  # not of one robot
    ],
)
def test_a_host_that_is_not_the_address_or_name_of_one_robot_is_refused(host):
    assert host in refusal(resolve, host)


def test_names_and_numbers_are_resolved_and_routed():
    assert resolve("localhost") == resolve("127.0.0.1") == "127.0.0.1"
    assert check_target(("localhost", 8080), 8081) == (("127.0.0.1", 8080), "127.0.0.1")


def test_without_a_route_the_cable_and_the_address_are_named():
    own_network = ["unshare", "-rn"]  # there is only a loopback interface, that is down
    if subprocess.run([*own_network, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let a program have a network of its own (unshare -rn)")
    assert "192.168.123.162/24" in refusal_elsewhere("check_target(('192.168.123.10', 8007), 8080)", *own_network)


def test_a_port_in_use_says_that_another_bridge_is_running(taken_port):
    assert str(taken_port) in refusal(bound_socket, taken_port)


def test_a_port_for_the_privileged_asks_for_a_higher_one():
    said = refusal_elsewhere("bound_socket(80)", before="os.geteuid() or (os.setgid(65534), os.setuid(65534))")
    if not said:
        pytest.skip("on this machine every program may open port 80")
    assert said.startswith("UDP port 80 needs privileges: choose a local port of 1024 or above")


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_must_be_one(port):
    assert f"not {port}" in refusal(bound_socket, port)
    assert f"not {port}" in refusal(check_target, ("127.0.0.1", port), 8080)
    assert "not 0" in refusal(check_target, ("127.0.0.1", 0), 8080)


def test_the_target_must_not_be_this_program():
    assert "is this computer's own port" in refusal(check_target, ("localhost", 8080), 8080)
