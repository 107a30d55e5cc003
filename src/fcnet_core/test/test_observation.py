"""An observation has every term at its place, for one robot and for many, with as much of the past as it names; its
quaternions are x, y, z, w and turn the way ROS turns.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.transform import Rotation

from fcnet_core.files import converted
from fcnet_core.observation import LAYOUT, Known, ObservationBuilder, PolicyInterface, RobotState, velocity_interface
from fcnet_core.robot import load_robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity, roll_pitch_yaw, xyzw_from_wxyz

BATCH, ROBOT = 3, load_robot("aliengo")
VELOCITY = ObservationBuilder(velocity_interface(ROBOT), ROBOT.joint_names)
numbers = st.floats(-50, 50, width=32)


def vectors(size: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, (BATCH, size), elements=numbers)


orientations = vectors(4).map(lambda q: (q + [0, 0, 0, 60]) / np.linalg.norm(q + [0, 0, 0, 60], axis=1, keepdims=True))
parts = st.tuples(orientations, vectors(3), vectors(12), vectors(12), vectors(12), vectors(9), st.floats(0, 1))


def assembled(orientation, angular_velocity, position, velocity, action, setpoint, phase):
    lead = setpoint.shape[:-1]
    known = Known(setpoint, np.full(lead, phase), np.full(lead, phase > 0), (action, action))
    return VELOCITY.build(RobotState(position, velocity, orientation, angular_velocity), known)


@given(parts)
def test_every_part_stands_in_its_place(values) -> None:
    orientation, angular_velocity, position, velocity, action, setpoint, phase = values
    observation = assembled(*values)
    assert observation.shape == (BATCH, 70)
    assert observation.dtype == np.float32
    down = matrix_from_xyzw(orientation).transpose(0, 2, 1) @ [0, 0, -1]
    angle = 2 * np.pi * phase
    clock = np.tile([np.sin(angle), np.cos(angle), phase > 0], (BATCH, 1))
    expected = {
        "projected_gravity": down,
        "joint_velocity": velocity,
        "sin_joint_position": np.sin(position),
        "cos_joint_position": np.cos(position),
        "angular_velocity": angular_velocity,
        "last_action": action,
        "command": np.hstack([setpoint[:, :8], clock, setpoint[:, 8:], np.zeros((BATCH, 4))]),
    }
    assert sum(part.shape[1] for part in expected.values()) == 70
    for name, part in expected.items():
        np.testing.assert_allclose(observation[:, LAYOUT[name]], part, rtol=1e-6, atol=1e-6)


@given(parts)
def test_whole_turns_of_a_joint_and_the_heading_do_not_show(values) -> None:
    turned = Rotation.from_euler("z", 1.4) * Rotation.from_quat(values[0])  # about the world's vertical
    same = assembled(turned.as_quat(), values[1], values[2] + 2 * np.pi, *values[3:])
    np.testing.assert_allclose(same, assembled(*values), atol=1e-6)


@given(parts, st.integers(0, BATCH - 1), st.sampled_from([np.nan, np.inf]))
def test_a_batch_is_its_robots_and_a_bad_reading_stays_with_its_robot(values, robot, bad) -> None:
    batch = assembled(*values)
    for number in range(BATCH):
        np.testing.assert_array_equal(assembled(*(part[number] for part in values[:-1]), values[-1]), batch[number])
    values[1][robot, 2] = bad
    finite = np.isfinite(assembled(*values)).all(axis=1)
    assert list(np.flatnonzero(~finite)) == [robot]


@given(st.tuples(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1)))
def test_matrix_angles_and_gravity_are_those_of_the_product_of_yaw_pitch_and_roll(rpy) -> None:
    turned = Rotation.from_euler("ZYX", rpy[::-1])  # Rz(yaw) Ry(pitch) Rx(roll)
    np.testing.assert_allclose(matrix_from_xyzw(turned.as_quat()), turned.as_matrix(), atol=1e-12)
    np.testing.assert_allclose(roll_pitch_yaw(turned.as_quat()), rpy, atol=1e-9)
    np.testing.assert_allclose(projected_gravity(turned.as_quat()), turned.inv().apply([0, 0, -1]), atol=1e-12)
    np.testing.assert_array_equal(xyzw_from_wxyz([[1, 2, 3, 4]]), [[2, 3, 4, 1]])  # the vendor's order


def built(section, steps, batch=None, **signals):
    """The inputs of `steps` steps of an interface; signals: functions of the step; the policy's first joint is b."""
    facts = {"rate": 50, "default_pose": [0.5, 0.25], "kp": 1, "kd": 1, "joints": ["b", "a"]}
    action = {"kind": "joint_position"}
    interface = converted(facts | {"action": action} | section, PolicyInterface)
    builder, rows = ObservationBuilder(interface, ("a", "b"), batch), []
    for step in range(steps):
        lead = () if batch is None else (batch,)
        known = Known(np.full((*lead, 9), 0.5), sent=(np.full((*lead, 2), step), np.full((*lead, 2), step - 1)))
        rows.append(builder.build({name: value(step) for name, value in signals.items()}, known))
        builder.build({name: value(step + 7) for name, value in signals.items()}, known)  # a step that was not taken
        rows[-1] = builder.build({name: value(step) for name, value in signals.items()}, known)
        builder.advance()
    return builder, rows


def inputs(*terms, **settings):
    return {"inputs": {"observation": {"terms": terms, **settings}}}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ({"order": "newest_first", "layout": "frame", "start": "zeros"}, [6, 12, 4, 8, 2, 4, 0, 0]),
        ({"order": "oldest_first", "layout": "frame", "start": "first"}, [0, 0, 2, 4, 4, 8, 6, 12]),
        ({"order": "oldest_first", "layout": "term", "start": "zeros"}, [0, 2, 4, 6, 0, 4, 8, 12]),
        ({"order": "newest_first", "layout": "term", "start": "first"}, [6, 4, 2, 0, 12, 8, 4, 0]),
    ],
)
def test_history_has_its_order_layout_and_start(history, expected) -> None:
    terms = {"term": "vector", "name": "x", "size": 1}, {"term": "vector", "name": "x", "size": 1, "scale": 2}
    section = inputs(*terms, history={"length": 4, **history})
    _, rows = built(section, 4, x=lambda step: np.array([2.0 * step]))
    assert rows[-1].tolist() == expected
    start = 10 if history["start"] == "first" else 0
    _, rows = built(section, 1, x=lambda step: np.array([10.0]))
    assert sorted(rows[0].tolist()) == sorted([*[start] * 3, 10, *[2 * start] * 3, 20])


def test_a_reset_of_some_robots_forgets_their_past_only() -> None:
    clock = {"term": "clock", "form": "sin_cos", "period": 0.08}
    section = inputs({"term": "vector", "name": "x", "size": 1, "history": 3}, clock)
    builder, rows = built(section, 5, batch=2, x=lambda step: np.full((2, 1), float(step)))
    np.testing.assert_allclose(rows[4], [[2, 3, 4, 1, 0]] * 2, atol=1e-6)  # after 1.25 periods of 4 steps
    builder.reset(np.array([True, False]))
    later = builder.build({"x": np.full((2, 1), 9.0)}, Known(np.zeros((2, 9))))
    np.testing.assert_allclose(later, [[9, 9, 9, 1, 0], [3, 4, 9, 0, -1]], atol=1e-6)


def test_terms_are_clipped_then_scaled_and_joints_found_by_name() -> None:
    terms = [
        {"term": "joint_position", "form": "relative", "scale": 2},
        {"term": "joint_position", "form": "absolute", "clip": 0.3},
        {"term": "joint_velocity", "scale": [1, 10]},
        {"term": "last_action", "of": "sent"},
        {"term": "last_action", "of": "sent", "age": 2},
        {"term": "command", "fields": ["vx", "roll", "other"], "scale": 100},
    ]
    commands = {"ranges": {"vx": [0, 1], "roll": [0, 1]}, "fixed": {"other": 0.25}}
    section = inputs(*terms, clip=50) | {"commands": commands}
    measured = {"joint_position": lambda _: np.array([1.0, 0.0]), "joint_velocity": lambda _: np.array([3.0, 4.0])}
    _, rows = built(section, 3, **measured)
    assert rows[2].tolist() == pytest.approx([-1, 1.5, 0, 0.3, 4, 30, 2, 2, 1, 1, 50, 50, 25])


def test_feet_have_phases_of_their_own_and_returns_shrink_by_rewards() -> None:
    clock = {"term": "clock", "form": "foot_sines", "frequency": "f", "offsets": {"L": ["half"], "R": []}}
    late, goal = {**clock, "lag": 1}, {"term": "return_to_go", "reference": [-10, 10], "target": 2}
    section = inputs(clock, late, goal, {**goal, "hold": True}, {"term": "reward"})
    section |= {"commands": {"fixed": {"f": 12.5, "half": 0.5}}, "action": {"kind": "vector", "size": 1}}
    _, rows = built(section, 3, reward=lambda step: 5.0 * step)
    expected = [[-1, 1, 0, 0, 2, 2, 0], [0, 0, -1, 1, 1.75, 2, 5], [1, -1, 0, 0, 1.25, 2, 10]]
    np.testing.assert_allclose(rows, expected, atol=1e-6)


def test_several_inputs_come_by_name_and_images_as_they_are() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (4, 6, 3), np.uint8)
    section = {
        "inputs": {
            "image": {"terms": [{"term": "image", "camera": "front", "size": [4, 6], "encoding": "rgb8"}]},
            "action": {"terms": [{"term": "last_action", "of": "index"}]},
        },
        "action": {"kind": "command", "fields": ["vx"], "scale": [1], "table": [[0], [1]]},
    }
    interface = converted(section | {"rate": 10}, PolicyInterface)
    known = Known(choice=(np.array(1), np.array(2)))
    seen = ObservationBuilder(interface).build({"camera/front": picture}, known)
    np.testing.assert_array_equal(seen["image"], picture)
    assert seen["action"].tolist() == [1] and seen["action"].dtype == np.int64
