"""The values of one status are found in a serialised DiagnosticArray, and nothing in one that is malformed."""

import pytest
from made_bag import TYPES, message, stamped

from fcnet_replay.diagnostics import status_values

VALUES = {"mode": "walking", "cycles": "250", "empty": "", "what": "a text with cycles in it"}


def status(name, values):
    pairs = [message("diagnostic_msgs/msg/KeyValue", {"key": key, "value": value}) for key, value in values.items()]
    return message("diagnostic_msgs/msg/DiagnosticStatus", {"name": name, "message": "m", "values": pairs})


@pytest.fixture
def array():
    statuses = [status("dog/controller: control", {"cycles": "1"}), status("controller: control", VALUES)]
    content = stamped("diagnostics", 0.0, {"status": statuses})
    return bytes(TYPES.serialize_cdr(content, "diagnostic_msgs/msg/DiagnosticArray"))


def test_each_status_has_its_own_values(array):
    assert status_values(array, "controller: control") == VALUES
    assert status_values(array, "dog/controller: control") == {"cycles": "1"}


@pytest.mark.parametrize("name", ["bridge: motors", "walking", "control"])
def test_a_status_that_is_absent_has_no_values(array, name):
    assert status_values(array, name) == {}


def test_a_message_that_is_cut_or_has_any_byte_changed_raises_nothing(array):
    for end in range(len(array)):
        assert status_values(array[:end], "controller: control") in ({}, VALUES)
    for place in range(len(array)):
        changed = bytearray(array)
        changed[place] ^= 0xFF
        assert isinstance(status_values(bytes(changed), "controller: control"), dict)
