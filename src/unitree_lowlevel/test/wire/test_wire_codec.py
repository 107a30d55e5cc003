"""Commands, states and the wireless remote as bytes: compared to a second, independent codec.

data/wire_vectors.npz holds numbers and the datagrams that the other codec makes of them, for both generations; it was
checked against the vendor's libraries.
"""

import random
import struct
from collections import Counter
from dataclasses import fields, replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from low_level_samples import COMMAND_SPANS, VECTORS, command, healthy_state

from fcnet_core.errors import WireError
from fcnet_core.names import BUTTONS
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import (
    GENERATIONS,
    POSITION_STOP,
    STEPS,
    VELOCITY_STOP,
    LowCommand,
    LowState,
    RemoteState,
    decode_command,
    decode_remote,
    decode_state,
    encode_command,
    encode_remote,
    encode_state,
    sealed,
)
from unitree_lowlevel.transport import TransportCounters

both_generations = pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)


def state(**changes):
    return healthy_state(load_robot("aliengo"), **changes)


def refusal(decode, generation, datagram):
    with pytest.raises(WireError) as caught:
        decode(generation, datagram)
    return caught.value


@both_generations
def test_commands_become_the_bytes_of_the_other_codec_and_are_read_back_within_one_step_of_the_wire(generation):
    with np.load(VECTORS) as vectors:
        datagrams, values, modes = (vectors[f"{generation.name}_{name}"] for name in ("commands", "values", "modes"))
    for datagram, value, mode in zip(datagrams, values, modes, strict=True):
        sent = LowCommand(mode, *value)
        assert encode_command(generation, sent) == datagram.tobytes()
        read = decode_command(generation, datagram.tobytes())
        np.testing.assert_array_equal(read.mode, mode)
        for name, (low, high), step in zip(COMMAND_SPANS, COMMAND_SPANS.values(), STEPS[:, 0], strict=True):
            error = getattr(read, name) - np.clip(getattr(sent, name), low, high)
            assert np.abs(error).max() < (1e-6 * high if step == 1.0 else 1.0 / step), name


@both_generations
def test_states_are_read_as_the_other_codec_reads_them_and_come_back_when_they_are_sent_again(generation):
    with np.load(VECTORS) as vectors:
        names = [field.name for field in fields(LowState) if field.name != "level"]
        datagrams = vectors[f"{generation.name}_states"]
        columns = {name: vectors[f"{generation.name}_state_{name}"] for name in names}
    assert len(datagrams) == 60
    for index, datagram in enumerate(datagrams):
        read = decode_state(generation, datagram.tobytes())
        again = decode_state(generation, encode_state(generation, read))
        for one, (name, column) in product((read, again), columns.items()):
            found = np.frombuffer(one.remote, dtype=np.uint8) if name == "remote" else getattr(one, name)
            np.testing.assert_array_equal(found, column[index], err_msg=name)


@both_generations
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("torque", 128.0, 127.99609375),  # the vendor's library sends -128
        ("torque", -128.0, -128.0),
        ("torque", -128.5, -128.0),
        ("torque", 1e30, 127.99609375),
        ("torque", -0.003, 0.0),
        ("stiffness", -1.0, 0.0),  # the vendor's library sends 2047
        ("stiffness", 1024.0, 1023.96875),
        ("stiffness", 1e9, 1023.96875),
        ("damping", -0.5, 0.0),
        ("damping", 2048.0, 2047.9375),
        ("damping", 0.03, 0.0),
        ("position", POSITION_STOP, np.float32(POSITION_STOP)),
        ("velocity", VELOCITY_STOP, VELOCITY_STOP),
    ],
)
def test_values_beyond_the_wires_range_become_the_nearest_within_it(generation, name, value, expected):
    read = decode_command(generation, encode_command(generation, command(**{name: np.full(12, value)})))
    assert (getattr(read, name) == expected).all()


@both_generations
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_a_command_or_a_state_that_is_not_finite_is_not_encoded_or_decoded(generation, value):
    for name in COMMAND_SPANS:
        with pytest.raises(WireError, match=f"{name} is not a finite number") as caught:
            encode_command(generation, command(**{name: np.where(np.arange(12) == 7, value, 0.0)}))
        assert caught.value.kind == "not_finite"
    for name in ("position", "velocity", "orientation", "angular_velocity", "linear_acceleration"):
        values = getattr(state(), name).copy()
        values[-1] = value
        with np.errstate(over="ignore"):
            datagram = encode_state(generation, state(**{name: values}))
        assert refusal(decode_state, generation, datagram).kind == "not_finite"


@both_generations
def test_a_single_wrong_bit_anywhere_is_noticed(generation):
    datagram = encode_state(generation, state())
    last = len(datagram) - 4
    for place in (*range(last // 4 * 4), *range(last, len(datagram))):  # the checksum covers whole words
        damaged = bytearray(datagram)
        damaged[place] ^= 1 << place % 8
        assert refusal(decode_state, generation, bytes(damaged)).kind in ("checksum", "head")


ODD_FLOATS = (0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 0x00000001, 0x80000000)


def damaged(datagram, head, draws):
    """Wrong or random bytes and odd numbers, in most cases with a right checksum, or another length."""
    changed = bytearray(datagram if draws.random() < 0.8 else head + draws.randbytes(len(datagram) - len(head)))
    for _ in range(1 + draws.randrange(4)):
        at = draws.randrange(len(changed) - 4)
        wrong = draws.choice(ODD_FLOATS).to_bytes(4, "little") if draws.random() < 0.5 else draws.randbytes(1)
        changed[at : at + len(wrong)] = wrong
    if draws.random() < 0.2:
        return bytes(changed[: draws.randrange(len(changed))]) + draws.randbytes(draws.randrange(600))
    return sealed(bytes(changed)) if draws.random() < 0.8 else bytes(changed)


@pytest.mark.filterwarnings("error")  # also for signalling NaN
def test_a_damaged_datagram_is_decoded_or_a_counted_rejection() -> None:
    draws, outcomes = random.Random(1), Counter()
    for generation in GENERATIONS.values():
        counters, head = TransportCounters(), generation.head
        sent_command, sent_state = encode_command(generation, command()), encode_state(generation, state())
        for _ in range(5_000):
            counters.take(partial(decode_state, generation, damaged(sent_state, head, draws)))
            try:
                read = decode_command(generation, damaged(sent_command, head, draws))
                assert all(np.isfinite(getattr(read, name)).all() for name in COMMAND_SPANS)
                outcomes["accepted"] += 1
            except WireError as error:
                outcomes[error.kind] += 1
        assert counters.received + sum(counters.rejected.values()) == 5_000
        outcomes.update(counters.rejected)
    assert outcomes.keys() == {"accepted", "size", "head", "generation", "checksum", "level", "not_finite"}


def remote_bytes(bits=0, lx=0.0, rx=0.0, ry=0.0, l2=0.0, ly=0.0):
    return b"\x55\x51" + struct.pack("<H5f", bits, lx, rx, ry, l2, ly) + bytes(16)


def test_every_bit_is_a_button_in_the_vendors_order():
    names = ["R1", "L1", "start", "select", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left"]
    assert [decode_remote(remote_bytes(bits=1 << bit)).buttons for bit in range(16)] == [{name} for name in names]


def test_axes_lie_where_the_vendor_puts_them():
    remote = decode_remote(remote_bytes(lx=0.1, rx=0.2, ry=0.3, l2=0.4, ly=0.5))
    assert (remote.lx, remote.rx, remote.ry, remote.L2, remote.ly) == pytest.approx((0.1, 0.2, 0.3, 0.4, 0.5))
    everything = replace(remote, buttons=frozenset(BUTTONS))
    assert decode_remote(encode_remote(everything)) == everything


def test_zeros_and_nothing_are_a_remote_at_rest():
    for untouched in (bytes(40), b"", bytes(39), b"\xff" * 41):
        assert decode_remote(untouched) == RemoteState()


@pytest.mark.parametrize(("sent", "read"), [("nan", 0.0), ("inf", 0.0), ("-inf", 0.0), ("1e30", 1.0), ("-2", -1.0)])
def test_an_axis_stays_within_the_range_of_a_stick(sent, read):
    assert decode_remote(remote_bytes(ly=float(sent))).ly == read
