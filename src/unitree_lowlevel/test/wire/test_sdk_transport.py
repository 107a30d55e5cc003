"""The transport around the vendor's module: which modules it takes, and, where one is installed, its bytes and ours."""

import socket
import sys
import time
from dataclasses import fields, replace

import numpy as np
import pytest
from low_level_samples import random_commands, random_states

from fcnet_core.errors import TransportError, WireError
from unitree_lowlevel.codec import GEN33, GEN38, LowState, decode_state, encode_command, encode_state
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


COMMAND, OTHER_COMMAND = random_commands(2)


MODULE = STAND_IN.format(header="commVersion")


@pytest.mark.parametrize(
    ("source", "target", "is_port_free", "named"),
    [
        (None, "127.0.0.1", True, "set the transport to wire"),
        ("class RobotInterface: pass", "127.0.0.1", True, "another program's"),
        ("raise ImportError('liblcm.so.1: cannot open')", "127.0.0.1", True, "liblcm.so.1: cannot open"),
        (MODULE.replace("*arguments", "port"), "127.0.0.1", True, "other arguments"),
        (MODULE, "127.0.0.1", False, "in use"),
        (MODULE, "192.168.123.300", True, "192.168.123.300"),
        (MODULE, "0.0.0.0", True, "0.0.0.0"),
    ],
)
def test_what_the_module_would_end_the_process_for_is_refused(
    installed, board, free_port, source, target, is_port_free, named
):
    installed(source)
    assert named in refusal(GEN33, (target, 9), free_port if is_port_free else board.getsockname()[1])


@pytest.mark.parametrize(("header", "speaks", "wanted"), [("version", GEN38, GEN33), ("commVersion", GEN33, GEN38)])
def test_a_module_of_the_other_generation_is_not_taken(installed, board, header, speaks, wanted):
    installed(STAND_IN.format(header=header))
    assert find_sdk().generation is speaks
    sentence = refusal(wanted, board.getsockname(), 0)
    assert speaks.name in sentence and wanted.name in sentence


@pytest.mark.parametrize("excess", [1.0, 3.0])
def test_the_library_sends_the_very_bytes_of_the_codec(sdk, board, excess):
    transport, generation, _ = sdk
    for command in random_commands(500):
        command = replace(command, torque=excess * command.torque, damping=excess * command.damping)
        transport.send(command)
        assert board.recv(2048) == encode_command(generation, command)
    assert transport.counters.sent == 500


def test_the_library_reads_the_very_states_of_the_codec(sdk, board):
    transport, generation, client = sdk
    assert transport.receive() is None
    for tick, state in enumerate(random_states(500), 1):
        datagram = encode_state(generation, replace(state, tick=tick))
        board.sendto(datagram, client)
        read, expected = transport.receive().state, decode_state(generation, datagram)
        for field in fields(LowState):
            np.testing.assert_array_equal(getattr(read, field.name), getattr(expected, field.name), err_msg=field.name)
    assert transport.receive() is None
    assert transport.counters.received == 500


def test_bad_and_overtaken_states_do_not_come_through_the_library(sdk, board):
    transport, generation, client = sdk

    def datagram(tick, **changes):
        return encode_state(generation, replace(next(random_states(1)), tick=tick, **changes))

    board.sendto(datagram(100), client)
    assert transport.receive().state.tick == 100
    good = datagram(102)
    nan = datagram(104, position=np.full(12, np.nan))
    for bad in (good[:300] + bytes([good[300] ^ 1]) + good[301:], good[:-1], b"", b"x" * 50, datagram(98), nan):
        board.sendto(bad, client)
        assert transport.receive() is None
    assert (transport.counters.old, transport.counters.rejected["not_finite"]) == (1, 1)
    board.sendto(good, client)
    assert transport.receive().state.tick == 102


def test_a_command_that_is_not_finite_or_late_does_not_reach_the_library(sdk, board):
    transport, generation, _ = sdk
    with pytest.raises(WireError) as refusal:
        transport.send(replace(COMMAND, stiffness=np.full(12, np.nan)))
    assert refusal.value.kind == "not_finite"
    transport.send(COMMAND, until=time.monotonic() - 0.001)
    transport.send(OTHER_COMMAND, until=time.monotonic() + 10.0)
    assert board.recv(2048) == encode_command(generation, OTHER_COMMAND)


def test_a_transport_closed_and_opened_again_uses_the_same_connection_also_without_a_board(sdk, board):
    transport, generation, _ = sdk
    transport.close()
    with pytest.raises(TransportError):
        transport.send(COMMAND)
    transport.open()
    transport.send(COMMAND)
    assert board.recv(2048) == encode_command(generation, COMMAND)
    board.close()
    for _ in range(20):
        transport.send(COMMAND)
        assert transport.receive() is None
    assert transport.counters.sent + transport.counters.send_errors == 21
