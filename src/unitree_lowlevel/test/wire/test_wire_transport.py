"""Commands and states over real UDP sockets."""

import select
import socket
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from low_level_samples import random_commands, random_states

from fcnet_core.errors import TransportError, WireError
from unitree_lowlevel.codec import GEN33, GEN38, GENERATIONS, encode_command, encode_state
from unitree_lowlevel.sdk_transport import SdkTransport
from unitree_lowlevel.transport import RESTART_AFTER, WireTransport, make_transport

COMMAND, STATE = next(random_commands(1)), next(random_states(1))
OWN_NETWORK = ["unshare", "-rn"]  # a program that starts so has a loopback interface of its own, and nothing else
NETWORK_GOES_AWAY = """
import subprocess
import numpy as np
from unitree_lowlevel.codec import GEN33, LowCommand
from unitree_lowlevel.transport import WireTransport

def address(change):
    subprocess.run(["ip", "address", change, "192.168.123.162/24", "dev", "lo"], check=True)

def send(count):
    for _ in range(count):
        transport.send(command)
        transport.receive()
    print(transport.counters.sent, transport.counters.send_errors)

zeros = np.zeros(12)
command = LowCommand(zeros.astype(np.uint8), zeros, zeros, zeros, zeros, zeros)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
address("add")
transport = WireTransport(GEN33, ("192.168.123.10", 8007), local_port=0)
transport.open()
send(1)
address("del")
send(3)
address("add")
send(1)
"""


class Board:
    """A robot's end of the wire: sends and receives datagrams."""

    def __init__(self, generation):
        self.generation = generation
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(5.0)
        self.address = self.socket.getsockname()
        self.client = None

    def meet(self, transport):
        self.client = ("127.0.0.1", transport.local_port)

    def send(self, *ticks):
        for tick in ticks:
            self.send_bytes(encode_state(self.generation, replace(STATE, tick=tick)))

    def send_bytes(self, datagram):
        self.socket.sendto(datagram, self.client)


@pytest.fixture(params=GENERATIONS.values(), ids=GENERATIONS)
def generation(request):
    return request.param


@pytest.fixture
def board(generation):
    board = Board(generation)
    with board.socket:
        yield board


@pytest.fixture
def transport(board):
    transport = WireTransport(board.generation, board.address, local_port=0)
    transport.open()
    board.meet(transport)
    yield transport
    transport.close()


def received_tick(transport):
    reception = transport.receive()
    return reception and reception.state.tick


def test_a_command_arrives_at_the_board(transport, board):
    transport.send(COMMAND)
    datagram, source = board.socket.recvfrom(2048)
    assert datagram == encode_command(board.generation, COMMAND)
    assert source[1] == transport.local_port
    assert transport.counters.sent == 1


def test_a_state_arrives_with_its_time(transport, board):
    assert transport.receive() is None
    board.send(7)
    reception = transport.receive()
    assert reception.state.tick == 7
    np.testing.assert_allclose(reception.state.linear_acceleration, STATE.linear_acceleration, rtol=1e-6)
    board.send(9)
    assert transport.receive().received > reception.received
    assert transport.receive() is None
    assert transport.counters.received == 2


@pytest.mark.parametrize(
    ("batches", "newest", "counts"),
    [
        ([(1, 2, 3, 4)], [4], {}),
        ([(10, 14, 12), (13,)], [14, None], {"old": 2}),
        ([(10, 10), (10,)], [10, 10], {"duplicates": 2}),  # a frozen clock is for the safety monitor to find
        (
            [(1_000_000,), range(1, RESTART_AFTER + 1)],
            [1_000_000, RESTART_AFTER],
            {"old": RESTART_AFTER - 1, "restarts": 1},
        ),
    ],
    ids=["newest", "overtaken", "duplicate", "restarted"],
)
def test_of_the_states_that_have_arrived_the_newest_is_read_and_all_are_counted(
    transport, board, batches, newest, counts
):
    read = []
    for batch in batches:
        board.send(*batch)
        read.append(received_tick(transport))
    assert read == newest
    counted = {name: getattr(transport.counters, name) for name in ("old", "duplicates", "restarts")}
    assert {name: number for name, number in counted.items() if number} == counts
    assert transport.counters.received == sum(map(len, batches))


def test_the_newest_good_state_wins_over_later_bad_ones_which_are_rejected_by_kind(transport, board):
    board.send(1, 2)
    good, other = encode_state(board.generation, replace(STATE, tick=3)), GEN38 if board.generation is GEN33 else GEN33
    damaged = good[:100] + bytes([good[100] ^ 1]) + good[101:]
    for wrong in (damaged, good + b"\0", good[:-1], b"", good * 4, encode_state(other, STATE)):
        board.send_bytes(wrong)
    assert received_tick(transport) == 2
    assert transport.counters.rejected == {"checksum": 1, "size": 4, "generation": 1}
    assert other.name in transport.counters.last_rejection


def test_datagrams_of_another_sender_are_ignored_and_counted(transport, board):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        other.sendto(encode_state(board.generation, replace(STATE, tick=99)), board.client)
        assert transport.receive() is None
        assert transport.counters.foreign == 1
        assert transport.counters.last_foreign == other.getsockname()
    board.send(5)
    assert received_tick(transport) == 5


def test_a_flood_does_not_keep_the_caller(transport, board):
    transport._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)  # as much as the system allows
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for _ in range(2000):
            other.sendto(b"", board.client)
    assert transport.receive() is None
    assert 0 < transport.counters.foreign <= 256


def test_a_command_that_is_not_finite_or_late_is_not_sent(transport, board):
    with pytest.raises(WireError):
        transport.send(replace(COMMAND, torque=np.full(12, np.nan)))
    transport.send(COMMAND, until=time.monotonic() - 0.001)
    assert not select.select([board.socket], [], [], 0.05)[0]
    transport.send(COMMAND, until=time.monotonic() + 10.0)
    assert select.select([board.socket], [], [], 1.0)[0]
    assert transport.counters.sent == 1


def test_a_board_that_is_gone_stops_neither_sending_nor_receiving(transport, board):
    board.socket.close()
    for _ in range(20):
        transport.send(COMMAND)
        assert transport.receive() is None
    assert transport.counters.sent + transport.counters.send_errors == 20
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as revived:
        revived.bind(board.address)
        revived.sendto(encode_state(board.generation, replace(STATE, tick=50)), board.client)
        assert received_tick(transport) == 50


def test_refusals_are_counted_and_survived(transport, board):
    """Linux reports to a connected socket, at its next call, that the other port is closed."""
    transport._socket.connect(board.address)
    board.socket.close()
    for _ in range(10):
        transport.send(COMMAND)
        assert transport.receive() is None
    counters = transport.counters
    assert counters.send_errors + counters.receive_errors > 0
    assert counters.sent + counters.send_errors == 10


def test_a_network_that_goes_away_is_counted_and_survived():
    if subprocess.run([*OWN_NETWORK, "ip", "link"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let a program have a network of its own (unshare -rn, ip)")
    program = [*OWN_NETWORK, sys.executable, "-c", NETWORK_GOES_AWAY]
    finished = subprocess.run(program, capture_output=True, text=True, check=True)
    assert finished.stdout.splitlines() == ["1 0", "1 3", "2 3"]


def test_two_bridges_at_once_are_refused(transport, board):
    second = WireTransport(board.generation, board.address, local_port=transport.local_port)
    with pytest.raises(TransportError):
        second.open()


def test_a_closed_transport_refuses_to_be_used_and_can_be_opened_again_and_counts_anew(transport, board):
    board.send(900)
    assert received_tick(transport) == 900
    transport.close()
    transport.close()
    for use in (transport.receive, lambda: transport.send(COMMAND)):
        with pytest.raises(TransportError):
            use()
    transport.open()
    board.meet(transport)
    assert transport.counters.received == 0
    board.send(5)
    assert received_tick(transport) == 5


def test_transports_are_made_by_name(board):
    assert type(make_transport("wire", board.generation, board.address, 0)) is WireTransport
    assert type(make_transport("sdk", board.generation, board.address, 0)) is SdkTransport
    with pytest.raises(TransportError):
        make_transport("serial", board.generation, board.address)
