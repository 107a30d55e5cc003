"""The observation has every part at its place, for one robot and for many."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fcnet_core.observation import ACTION_SIZE, LAYOUT, OBSERVATION_SIZE, assemble_observation
from fcnet_core.rotation import matrix_from_xyzw

BATCH = 3
numbers = st.floats(-50, 50, width=32)


def vectors(size: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, (BATCH, size), elements=numbers)


orientations = vectors(4).map(lambda q: (q + [0, 0, 0, 60]) / np.linalg.norm(q + [0, 0, 0, 60], axis=1, keepdims=True))
parts = st.tuples(orientations, vectors(3), vectors(12), vectors(12), vectors(12), vectors(16))


def test_the_layout_covers_every_entry_once() -> None:
    entries = [entry for part in LAYOUT.values() for entry in range(OBSERVATION_SIZE)[part]]
    assert entries == list(range(70))
    assert LAYOUT["last_action"].stop - LAYOUT["last_action"].start == ACTION_SIZE


@given(parts)
def test_every_part_stands_in_its_place(values) -> None:
    orientation, angular_velocity, position, velocity, action, command = values
    observation = assemble_observation(*values)
    assert observation.shape == (BATCH, OBSERVATION_SIZE)
    assert observation.dtype == np.float32
    down = matrix_from_xyzw(orientation).transpose(0, 2, 1) @ [0, 0, -1]
    expected = {
        "projected_gravity": down,
        "joint_velocity": velocity,
        "sin_joint_position": np.sin(position),
        "cos_joint_position": np.cos(position),
        "angular_velocity": angular_velocity,
        "last_action": action,
        "command": command,
    }
    for name, part in expected.items():
        np.testing.assert_allclose(observation[:, LAYOUT[name]], part, rtol=1e-6, atol=1e-6)


@given(parts)
def test_whole_turns_of_a_joint_and_the_heading_do_not_show(values) -> None:
    x, y, z, w = values[0].T
    s, c = np.sin(0.7), np.cos(0.7)  # a turn by 1.4 rad about the world's vertical, from the left
    turned = np.stack([c * x - s * y, c * y + s * x, c * z + s * w, c * w - s * z], axis=1)
    same = assemble_observation(turned, values[1], values[2] + 2 * np.pi, *values[3:])
    np.testing.assert_allclose(same, assemble_observation(*values), atol=1e-6)


@given(parts, st.integers(0, BATCH - 1), st.sampled_from([np.nan, np.inf]))
def test_a_batch_is_its_robots_and_a_bad_reading_stays_with_its_robot(values, robot, bad) -> None:
    batch = assemble_observation(*values)
    for number in range(BATCH):
        np.testing.assert_array_equal(assemble_observation(*(part[number] for part in values)), batch[number])
    values[1][robot, 2] = bad
    finite = np.isfinite(assemble_observation(*values)).all(axis=1)
    assert list(np.flatnonzero(~finite)) == [robot]
