"""The transport around the vendor's module: which modules it takes, and, where one is installed, its bytes and ours."""

import socket
import sys
import time
from dataclasses import fields

import numpy as np
import pytest

from fcnet_core.errors import TransportError, WireError
from unitree_lowlevel.codec import GEN33, GEN38, LowCommand, LowState, decode_state, encode_command, encode_state
from unitree_lowlevel.sdk_transport import SdkTransport, find_sdk

# What the vendor's module does to the process when a port is taken or there is no route, and the sentences that say so.
STAND_IN = """
class UDP:
    def __init__(self, *arguments):
        raise SystemExit(-2)
class LowState: pass
class LowCmd:
    {header} = 0
"""


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Install this source as the one robot_interface there is; nothing at all with None."""

    def install(source):
        monkeypatch.setitem(sys.modules, "unitree_legged_sdk.robot_interface", None)
        monkeypatch.setitem(sys.modules, "robot_interface", None)
        if source is not None:
            monkeypatch.delitem(sys.modules, "robot_interface")
            monkeypatch.syspath_prepend(tmp_path)
            (tmp_path / "robot_interface.py").write_text(source)

    yield install
    sys.modules.pop("robot_interface", None)


@pytest.fixture
def board():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as board:
        board.bind(("127.0.0.1", 0))
        board.settimeout(5.0)
        yield board


@pytest.fixture
def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


@pytest.fixture
def sdk(board, free_port):
    """The vendor's library between a board and the transport, with the generation that it speaks."""
    try:
        generation = find_sdk().generation
    except TransportError as error:
        pytest.skip(f"the vendor's library cannot be tested: {error}")
    transport = SdkTransport(generation, board.getsockname(), free_port)
    transport.open()
    yield transport, generation, ("127.0.0.1", free_port)
    transport.close()


def refusal(*arguments):
    with pytest.raises(TransportError) as caught:
        SdkTransport(*arguments).open()
    return str(caught.value)


def random_command(rng, excess):
    """A command; beyond what the wire can say where excess is above 1."""
    return LowCommand(
        mode=rng.integers(0, 256, 12).astype(np.uint8),
        position=rng.uniform(-7, 7, 12),
        velocity=rng.uniform(-30, 30, 12),
        torque=rng.uniform(-127.9, 127.9, 12) * excess,
        stiffness=rng.uniform(1 - excess, excess, 12) * 1023,
        damping=rng.uniform(1 - excess, excess, 12) * 2047,
    )


def random_state(rng, tick):
    return LowState(
        mode=rng.integers(0, 256, 12).astype(np.uint8),
        position=rng.normal(0, 2, 12),
        velocity=rng.normal(0, 9, 12),
        torque=rng.uniform(-127, 127, 12),
        temperature=rng.integers(-128, 128, 12).astype(float),
        orientation=rng.normal(0, 1, 4),
        angular_velocity=rng.normal(0, 3, 3),
        linear_acceleration=rng.normal(0, 9, 3),
        imu_temperature=float(rng.integers(-128, 128)),
        foot_force=rng.integers(-999, 999, 4).astype(float),
        tick=tick,
        remote=rng.bytes(40),
        identity=(int(rng.integers(60000)), int(rng.integers(60000))),
    )


def test_without_a_module_the_other_transport_is_named(installed, board):
    installed(None)
    sentence = refusal(GEN33, board.getsockname(), 0)
    assert sentence.startswith("no module of the vendor is installed: set the transport to wire")


def test_a_module_of_that_name_with_another_interface_is_not_taken(installed, board):
    installed("class RobotInterface: pass")
    assert "robot_interface is another program's" in refusal(GEN33, board.getsockname(), 0)


def test_a_module_that_does_not_load_is_refused_with_its_error(installed, board):
    installed("raise ImportError('liblcm.so.1: cannot open shared object file')")
    assert "robot_interface does not load (liblcm.so.1: cannot open" in refusal(GEN33, board.getsockname(), 0)


@pytest.mark.parametrize(("header", "speaks", "wanted"), [("version", GEN38, GEN33), ("commVersion", GEN33, GEN38)])
def test_a_module_of_the_other_generation_is_not_taken(installed, board, header, speaks, wanted):
    installed(STAND_IN.format(header=header))
    assert find_sdk().generation is speaks
    sentence = refusal(wanted, board.getsockname(), 0)
    assert speaks.name in sentence and wanted.name in sentence


@pytest.mark.parametrize("target", ["192.168.123.300", "0.0.0.0"])
def test_a_wrong_target_is_refused_before_the_module_would_end_the_process(installed, target):
    installed(STAND_IN.format(header="commVersion"))
    assert target in refusal(GEN33, (target, 8007), 0)


def test_a_port_in_use_is_refused_before_the_module_would_end_the_process(installed, board):
    installed(STAND_IN.format(header="commVersion"))
    taken = board.getsockname()[1]
    assert f"UDP port {taken} is in use" in refusal(GEN33, ("127.0.0.1", 9), taken)


def test_a_build_for_other_arguments_is_refused(installed, board, free_port):
    installed(STAND_IN.format(header="commVersion").replace("*arguments", "port"))
    assert "is built for other arguments" in refusal(GEN33, board.getsockname(), free_port)


@pytest.mark.parametrize("excess", [1, 3])
def test_the_library_sends_the_very_bytes_of_the_codec(sdk, board, excess):
    transport, generation, _ = sdk
    rng = np.random.default_rng(1)
    for _ in range(500):
        command = random_command(rng, excess)
        transport.send(command)
        assert board.recv(2048) == encode_command(generation, command)
    assert transport.counters.sent == 500


def test_the_library_reads_the_very_states_of_the_codec(sdk, board):
    transport, generation, client = sdk
    rng = np.random.default_rng(2)
    assert transport.receive() is None
    for tick in range(1, 501):
        datagram = encode_state(generation, random_state(rng, tick))
        board.sendto(datagram, client)
        read, expected = transport.receive().state, decode_state(generation, datagram)
        for field in fields(LowState):
            np.testing.assert_array_equal(getattr(read, field.name), getattr(expected, field.name), err_msg=field.name)
    assert transport.receive() is None
    assert transport.counters.received == 500


def test_bad_and_overtaken_states_do_not_come_through_the_library(sdk, board):
    transport, generation, client = sdk
    rng = np.random.default_rng(3)
    board.sendto(encode_state(generation, random_state(rng, 100)), client)
    assert transport.receive().state.tick == 100
    good = encode_state(generation, random_state(rng, 102))
    for bad in (good[:300] + bytes([good[300] ^ 1]) + good[301:], good[:-1], b"", b"x" * 50):
        board.sendto(bad, client)
        assert transport.receive() is None
    board.sendto(encode_state(generation, random_state(rng, 98)), client)
    assert transport.receive() is None
    assert transport.counters.old == 1
    not_a_number = random_state(rng, 104)
    not_a_number.position[3] = np.nan
    board.sendto(encode_state(generation, not_a_number), client)
    assert transport.receive() is None
    assert transport.counters.rejected["not_finite"] == 1
    board.sendto(good, client)
    assert transport.receive().state.tick == 102


def test_a_command_that_is_not_finite_does_not_reach_the_library(sdk, board):
    transport, generation, _ = sdk
    command = random_command(np.random.default_rng(4), 1)
    transport.send(command)
    assert board.recv(2048) == encode_command(generation, command)
    command.stiffness[5] = np.nan
    with pytest.raises(WireError, match="stiffness is not a finite number"):
        transport.send(command)
    board.setblocking(False)
    with pytest.raises(BlockingIOError):
        board.recv(2048)


def test_a_command_whose_time_has_passed_is_not_sent_by_the_library(sdk, board):
    transport, generation, _ = sdk
    late, timely = (random_command(np.random.default_rng(seed), 1) for seed in (5, 6))
    transport.send(late, until=time.monotonic() - 0.001)
    transport.send(timely, until=time.monotonic() + 10.0)
    assert board.recv(2048) == encode_command(generation, timely)


def test_a_transport_closed_and_opened_again_uses_the_same_connection(sdk, board):
    transport, generation, _ = sdk
    transport.close()
    command = random_command(np.random.default_rng(5), 1)
    with pytest.raises(TransportError, match="open it first"):
        transport.send(command)
    transport.open()
    transport.send(command)
    assert board.recv(2048) == encode_command(generation, command)


def test_a_board_that_is_gone_does_not_end_the_process(sdk, board):
    transport, _, _ = sdk
    board.close()
    command = random_command(np.random.default_rng(6), 1)
    for _ in range(20):
        transport.send(command)
        assert transport.receive() is None
    assert transport.counters.sent + transport.counters.send_errors == 20
