"""Commands and states over real UDP sockets, by the codec and, where the vendor's module is installed, by that; and how
the cycles of the loop meet the arrival of states.
"""

import select
import socket
import sys
import time
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from low_level_samples import VECTORS, command, healthy_state

from fcnet_core.errors import TransportError, WireError
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import GEN33, GENERATIONS, LowCommand, LowState, decode_state, encode_command, encode_state
from unitree_lowlevel.io_process import StatePhase
from unitree_lowlevel.sdk_transport import SdkTransport, find_sdk
from unitree_lowlevel.transport import RESTART_AFTER, TickOrder, make_transport

COMMAND, OTHER_COMMAND = (command(stiffness=np.full(12, value)) for value in (10.0, 20.0))
STATE = healthy_state(load_robot("aliengo"))
# What the vendor's module does to the process when a port is taken or there is no route, and the sentences that say so.
STAND_IN = """
class UDP:
    def __init__(self, *arguments):
        raise SystemExit(-2)
class LowState: pass
class LowCmd:
    {header} = 0
"""
MODULE = STAND_IN.format(header="commVersion")


class Board:
    """A robot's end of the wire: sends and receives datagrams. kind: of the transport that it is for."""

    def __init__(self, kind, generation, client_port):
        self.kind, self.generation = kind, generation
        self.client = ("127.0.0.1", client_port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(5.0)
        self.address = self.socket.getsockname()

    def state(self, tick, **changes):
        return encode_state(self.generation, replace(STATE, tick=tick, **changes))

    def send(self, *ticks):
        for tick in ticks:
            self.send_bytes(self.state(tick))

    def send_bytes(self, datagram):
        self.socket.sendto(datagram, self.client)


@pytest.fixture
def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


@pytest.fixture(params=[*GENERATIONS, "sdk"])
def board(request, free_port):
    """A board for each generation of our transport, and for the vendor's module with the generation that it speaks."""
    try:
        kind, generation = ("sdk", find_sdk()[1]) if request.param == "sdk" else ("wire", request.param)
    except TransportError as error:
        pytest.skip(f"the vendor's library cannot be tested: {error}")
    board = Board(kind, GENERATIONS.get(generation, generation), free_port)
    with board.socket:
        yield board


wire_alone = pytest.mark.parametrize("board", GENERATIONS, indirect=True)
sdk_alone = pytest.mark.parametrize("board", ["sdk"], indirect=True)


@pytest.fixture
def transport(board):
    transport = make_transport(board.kind, board.generation, board.address, board.client[1])
    transport.open()
    yield transport
    transport.close()


def received_tick(transport):
    reception = transport.receive()
    return reception and reception.state.tick


def test_a_command_arrives_at_the_board_and_a_state_with_its_time(transport, board):
    transport.send(COMMAND)
    datagram, source = board.socket.recvfrom(2048)
    assert datagram == encode_command(board.generation, COMMAND)
    assert source[1] == board.client[1]
    assert transport.counters.sent == 1
    assert transport.receive() is None
    board.send(7)
    reception = transport.receive()
    assert reception.state.tick == 7
    np.testing.assert_allclose(reception.state.linear_acceleration, STATE.linear_acceleration, rtol=1e-6)
    board.send(9)
    assert transport.receive().received > reception.received
    assert transport.receive() is None
    assert transport.counters.received == 2


def test_bad_and_overtaken_states_do_not_come_through(transport, board):
    board.send(100)
    assert received_tick(transport) == 100
    good = board.state(102)
    nan = board.state(104, position=np.full(12, np.nan))
    for bad in (good[:300] + bytes([good[300] ^ 1]) + good[301:], good[:-1], b"", b"x" * 50, board.state(98), nan):
        board.send_bytes(bad)
        assert transport.receive() is None
    assert (transport.counters.old, transport.counters.rejected["not_finite"]) == (1, 1)
    board.send_bytes(good)
    assert received_tick(transport) == 102


def test_a_command_that_is_not_finite_or_late_is_not_sent(transport, board):
    with pytest.raises(WireError) as refusal:
        transport.send(replace(COMMAND, stiffness=np.full(12, np.nan)))
    assert refusal.value.kind == "not_finite"
    transport.send(COMMAND, until=time.monotonic() - 0.001)
    transport.send(OTHER_COMMAND, until=time.monotonic() + 10.0)
    assert board.socket.recv(2048) == encode_command(board.generation, OTHER_COMMAND)
    assert not select.select([board.socket], [], [], 0.05)[0]
    assert transport.counters.sent == 1


def test_a_board_that_is_gone_stops_neither_sending_nor_receiving(transport, board):
    board.socket.close()
    for _ in range(20):
        transport.send(COMMAND)
        assert transport.receive() is None
    assert transport.counters.sent + transport.counters.send_errors == 20
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as revived:
        revived.bind(board.address)
        revived.sendto(board.state(50), board.client)
        assert received_tick(transport) == 50


def test_a_closed_transport_refuses_to_be_used_and_can_be_opened_again_and_counts_anew(transport, board):
    board.send(900)
    assert received_tick(transport) == 900
    transport.close()
    transport.close()
    for use in (transport.receive, lambda: transport.send(COMMAND)):
        with pytest.raises(TransportError):
            use()
    transport.open()
    assert transport.counters.received == 0
    board.send(5)
    assert received_tick(transport) == 5
    transport.send(COMMAND)
    assert board.socket.recv(2048) == encode_command(board.generation, COMMAND)


@wire_alone
@pytest.mark.parametrize(
    ("batches", "newest", "counts"),
    [
        ([(1, 2, 3, 4)], [4], {}),
        ([(10, 14, 12), (13,)], [14, None], {"old": 2}),
        ([(10, 10), (10,)], [10, 10], {"duplicates": 2}),  # a frozen clock is for the safety monitor to find
        ([(10**6,), range(1, RESTART_AFTER + 1)], [10**6, RESTART_AFTER], {"old": RESTART_AFTER - 1, "restarts": 1}),
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


RESTARTED = ["new", *["old"] * (RESTART_AFTER - 1), "restart", "new"]


@pytest.mark.parametrize(
    ("ticks", "ages"),
    [
        *(
            ([up_for * step % 2**31, *(step * count for count in range(1, RESTART_AFTER + 2))], RESTARTED)
            for up_for, step in product((200, 900_000, 2_000_000_000), (1, 2, 2000))
        ),
        ([1000, *(tick - early for tick in range(1002, 1200, 2) for early in (0, 6))], ["new", *["new", "old"] * 99]),
        ([1000, *[500] * 100, *range(900, 500, -2)], ["new", *["old"] * 300]),
        ((2**32 - 2, 0, 2, 2**32 - 1, 4), ["new", "new", "new", "old", "new"]),
    ],
    ids=[*(f"restart{number}" for number in range(9)), "overtaken", "not advancing", "wrap"],
)
def test_a_restart_is_noticed_after_a_few_states_old_states_are_none_and_a_tick_may_wrap_around(ticks, ages):
    order = TickOrder()
    assert [order.classify(tick) for tick in ticks] == ages


@wire_alone
def test_datagrams_of_another_sender_are_ignored_and_counted_and_a_flood_does_not_keep_the_caller(transport, board):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        other.sendto(board.state(99), board.client)
        assert transport.receive() is None
        assert transport.counters.foreign == 1
        assert transport.counters.last_foreign == other.getsockname()
        board.send(5)
        assert received_tick(transport) == 5
        transport._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)  # as much as the system allows
        for _ in range(2000):
            other.sendto(b"", board.client)
    assert transport.receive() is None
    assert 1 < transport.counters.foreign <= 257


@wire_alone
def test_commands_that_the_system_refuses_are_counted_and_a_port_that_closes_is_survived(transport, board):
    counters, target = transport.counters, transport._target
    for transport._target, counts in ((("255.255.255.255", 9), (0, 1)), (target, (1, 1))):  # as without a route
        transport.send(COMMAND)
        assert (counters.sent, counters.send_errors) == counts
    transport._socket.connect(board.address)  # Linux then reports a closed port at the next call
    board.socket.close()
    for _ in range(10):
        transport.send(COMMAND)
        assert transport.receive() is None


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
        (STAND_IN.format(header="version"), "127.0.0.1", True, "uses gen38, not this robot's gen33"),
    ],
)
def test_what_the_module_would_end_the_process_for_is_refused(
    installed, taken_port, free_port, source, target, is_port_free, named
):
    installed(source)
    transport = SdkTransport(GEN33, (target, 9), free_port if is_port_free else taken_port)
    with pytest.raises(TransportError, match=named):
        transport.open()


@sdk_alone
def test_the_library_sends_the_very_bytes_of_the_codec_and_reads_its_very_states(transport, board):
    assert type(transport) is SdkTransport
    with np.load(VECTORS) as vectors:
        values, modes, states = (vectors[f"{board.generation.name}_{name}"] for name in ("values", "modes", "states"))
    for (value, mode), excess in product(zip(values, modes, strict=True), (1.0, 3.0)):
        command = LowCommand(mode, *(excess * value))
        transport.send(command)
        assert board.socket.recv(2048) == encode_command(board.generation, command)
    assert transport.counters.sent == 2 * len(values)
    for tick, received in enumerate(states, 1):
        state = decode_state(board.generation, received.tobytes())
        datagram = encode_state(board.generation, replace(state, tick=tick))
        board.send_bytes(datagram)
        read, expected = transport.receive().state, decode_state(board.generation, datagram)
        for field in fields(LowState):
            np.testing.assert_array_equal(getattr(read, field.name), getattr(expected, field.name), err_msg=field.name)
    assert transport.counters.received == len(states)


PERIOD = 0.002


@pytest.mark.parametrize(
    ("first_arrival", "jitter", "found"),
    [(PERIOD - 0.0001, 0.0003, 1.0), (0.0005, 0.0, 1.0), (0.0005, 0.002, 0.0), (0.0005, 0.01, 0.0)],
)
def test_states_that_come_at_about_the_time_of_a_cycle_are_found_after_a_while_and_no_jitter_makes_the_loop_slow(
    first_arrival, jitter, found
):
    """found: least share of the last second's cycles that find a state, for states PERIOD apart."""
    arrivals = np.sort(first_arrival + PERIOD * np.arange(5100) + jitter * np.random.default_rng(0).random(5100))
    phase, now, finds, received = StatePhase(PERIOD), 0.0, [], 0
    while now < 10.0:
        now += PERIOD
        arrived = int(np.searchsorted(arrivals, now))
        finds.append(arrived > received)
        received = arrived
        now += phase.shift(received, now)
    assert np.mean(finds[-500:]) >= found
    assert len(finds) / 10.0 > 499.0
