"""Commands and states as bytes: compared to a second, independent codec.

data/wire_vectors.npz holds numbers and the datagrams that the other codec makes of them, for both generations; it was
checked against the vendor's libraries. Digests stand for more than a file should hold.
"""

import hashlib
import random
from collections import Counter
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from low_level_samples import COMMAND_SPANS, random_commands, random_states, uniform

from fcnet_core.errors import WireError
from unitree_lowlevel.codec import (
    GEN33,
    GEN38,
    GENERATIONS,
    POSITION_STOP,
    SERVO,
    STEPS,
    VELOCITY_STOP,
    LowCommand,
    LowState,
    crc32_mpeg2,
    decode_command,
    decode_state,
    encode_command,
    encode_state,
    sealed,
)
from unitree_lowlevel.transport import TransportCounters

VECTORS = Path(__file__).parents[1] / "data" / "wire_vectors.npz"
DIGESTS = {  # SHA-256 of 20,000 commands in a row, and of 5,000 states
    "gen33": (
        "2daa6c325edeae5e2a7360de7951a9795bdd7daa07b9ce6baf365bc06d35afbc",
        "85ea645a68f23a38026433fe8b2a05d39f27fe5380b751ffd3e155bf949ee2ba",
    ),
    "gen38": (
        "198feb235521da610b972557583dfb30301e905117d340d860a551908bf2ddd3",
        "83c23dfe3740a69fac6baf2e3f7bdb81efd6551d2eda2e9df6b9b1836b0cf140",
    ),
}
both_generations = pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)


def command(**changes):
    zeros = np.zeros(12)
    return replace(LowCommand(np.full(12, SERVO, dtype=np.uint8), zeros, zeros, zeros, zeros, zeros), **changes)


def state(**changes):
    return replace(next(random_states(1)), **changes)


def refusal(decode, generation, datagram):
    with pytest.raises(WireError) as caught:
        decode(generation, datagram)
    return caught.value


def test_the_checksum_is_the_polynomial_division_of_its_name():
    def by_definition(words):
        rest = 0xFFFFFFFF
        for word in np.frombuffer(words, dtype="<u4").tolist():
            for bit in range(31, -1, -1):
                carry = (rest >> 31) ^ (word >> bit & 1)
                rest = (rest << 1 & 0xFFFFFFFF) ^ (0x04C11DB7 * carry)
        return rest

    for length in (4, 8, 604, 800):
        words = uniform(length, length).tobytes()[:length]
        assert crc32_mpeg2(words) == by_definition(words)
    assert crc32_mpeg2(b"\xff\xff\xff\xff") == 0


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
def test_states_are_read_as_the_other_codec_reads_them(generation):
    with np.load(VECTORS) as vectors:
        names = [field.name for field in fields(LowState) if field.name != "level"]
        datagrams = vectors[f"{generation.name}_states"]
        columns = {name: vectors[f"{generation.name}_state_{name}"] for name in names}
    assert len(datagrams) == 60
    for index, datagram in enumerate(datagrams):
        read = decode_state(generation, datagram.tobytes())
        for name, column in columns.items():
            found = np.frombuffer(read.remote, dtype=np.uint8) if name == "remote" else getattr(read, name)
            np.testing.assert_array_equal(found, column[index], err_msg=name)


@both_generations
def test_many_commands_and_states_become_the_bytes_of_the_other_codec_and_states_come_back(generation):
    commands, states = hashlib.sha256(), hashlib.sha256()
    for one in random_commands(20_000):
        commands.update(encode_command(generation, one))
    for index, one in enumerate(random_states(5_000)):
        datagram = encode_state(generation, one)
        states.update(datagram)
        if index % 20 == 0:
            assert encode_state(generation, decode_state(generation, datagram)) == datagram
    assert (commands.hexdigest(), states.hexdigest()) == DIGESTS[generation.name]


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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("pattern", [b"\x01\x00\x80\x7f", b"\xff\xff\xff\xff"])
@pytest.mark.parametrize(
    ("datagram", "decode", "first"),
    [(encode_command(GEN33, command()), decode_command, 11), (encode_state(GEN33, state()), decode_state, 64)],
    ids=["command", "state"],
)
def test_every_kind_of_nan_is_refused_without_a_warning(datagram, decode, first, pattern):
    wrong = sealed(datagram[:first] + pattern + datagram[first + 4 :])
    assert refusal(decode, GEN33, wrong).kind == "not_finite"


@pytest.mark.parametrize(
    ("generation", "place", "value", "kind"),
    [(GEN38, 1, 0xEE, "head"), (GEN38, 2, 0xEE, "level"), (GEN33, 0, 0xEE, "level")],  # 0xEE is the high level
)
def test_a_command_with_another_head_or_for_another_level_is_refused(generation, place, value, kind):
    datagram = bytearray(encode_command(generation, command()))
    datagram[place] = value
    assert refusal(decode_command, generation, sealed(bytes(datagram))).kind == kind


@both_generations
def test_datagrams_of_another_size_or_generation_are_refused_by_kind(generation):
    other = GEN38 if generation is GEN33 else GEN33
    for encode, decode, value in ((encode_command, decode_command, command()), (encode_state, decode_state, state())):
        good = encode(generation, value)
        for wrong in (b"", good[:-1], good + b"\0", good + good):
            assert refusal(decode, generation, wrong).kind == "size"
        assert refusal(decode, generation, encode(other, value)).kind == "generation"


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
