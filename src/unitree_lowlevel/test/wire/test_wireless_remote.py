"""The wireless remote's 40 bytes."""

import struct
from dataclasses import replace

import pytest

from fcnet_core.names import BUTTONS
from unitree_lowlevel.codec import RemoteState, decode_remote, encode_remote


def layout(bits=0, lx=0.0, rx=0.0, ry=0.0, l2=0.0, ly=0.0):
    return b"\x55\x51" + struct.pack("<H5f", bits, lx, rx, ry, l2, ly) + bytes(16)


def test_every_bit_is_a_button_in_the_vendors_order():
    names = ["R1", "L1", "start", "select", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left"]
    assert [decode_remote(layout(bits=1 << bit)).buttons for bit in range(16)] == [{name} for name in names]


def test_axes_lie_where_the_vendor_puts_them():
    remote = decode_remote(layout(lx=0.1, rx=0.2, ry=0.3, l2=0.4, ly=0.5))
    assert (remote.lx, remote.rx, remote.ry, remote.L2, remote.ly) == pytest.approx((0.1, 0.2, 0.3, 0.4, 0.5))
    everything = replace(remote, buttons=frozenset(BUTTONS))
    assert decode_remote(encode_remote(everything)) == everything


def test_zeros_and_nothing_are_a_remote_at_rest():
    for untouched in (bytes(40), b"", bytes(39), b"\xff" * 41):
        assert decode_remote(untouched) == RemoteState()


@pytest.mark.parametrize(("sent", "read"), [("nan", 0.0), ("inf", 0.0), ("-inf", 0.0), ("1e30", 1.0), ("-2", -1.0)])
def test_an_axis_stays_within_the_range_of_a_stick(sent, read):
    assert decode_remote(layout(ly=float(sent))).ly == read
