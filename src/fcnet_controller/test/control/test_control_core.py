from dataclasses import replace

import numpy as np
import pytest
from msgspec import convert, structs

from fcnet_controller.controller_node import auto_start
from fcnet_core.control.envelope import Envelope
from fcnet_core.legs.stand_motion import LYING, stand_path
from fcnet_core.names import Mode
from fcnet_core.robot import SETPOINT_FIELDS


def commands_seen(bench):
    return np.array([observation[54:70] for observation in bench.policy.observations])


def test_a_driver_is_told_how_commands_are_limited(make_bench, model):
    ranges = {field: [[-0.02, 0.02], [0.0, 0.0]] for field in SETPOINT_FIELDS[1:]}
    envelope = convert({"vx": [0.0, 0.4], "ranges": ranges}, Envelope)
    commands = structs.replace(model.card.interface.commands, envelope=envelope)
    interface = structs.replace(model.card.interface, commands=commands)
    bench = make_bench(replace(model, card=structs.replace(model.card, interface=interface)))
    bench.walk().run(1.0, vx=0.3)
    assert bench.core.limited == ""
    bench.run(1.0, vx=1.0)
    assert bench.core.limited == "vx 1 to 0.4"
    assert commands_seen(bench)[-1][0] == pytest.approx(0.4)


def test_a_walk_after_a_reset_starts_cold_with_the_clock_at_rest_and_without_earlier_commands(bench):
    bench.walk().run(1.0, vx=0.5)
    bench.source.set_pose(-0.05, (0, 0, 0, 1), bench.now)
    resets, seen = bench.policy.resets, len(bench.policy.observations)
    bench.core.emergency_stop()
    bench.run(0.1)
    bench.core.reset()
    np.testing.assert_allclose(bench.core.commands.wanted(bench.now), 0.0)
    bench.walk()
    assert bench.policy.resets == resets + 1
    np.testing.assert_allclose(commands_seen(bench)[seen], [0] * 9 + [1] + [0] * 6)


def test_a_walking_robot_comes_to_rest_and_then_lies_down(bench, robot):
    bench.walk().run(1.0, vx=0.5)
    bench.core.lie_down()
    bench.run(0.5, vx=0.5)
    assert bench.core.mode is Mode.WALKING
    bench.run(4.5, vx=0.5)
    assert bench.core.mode is Mode.PASSIVE
    np.testing.assert_allclose(bench.position, stand_path(robot).pose(LYING), atol=0.01)


def test_a_faster_loop_asks_the_policy_at_its_own_rate_and_holds_its_targets(make_bench):
    bench = make_bench(rate=200.0).walk()
    seen = len(bench.policy.observations)
    bench.run(1.0, vx=0.5)
    assert len(bench.policy.observations) - seen == 50
    sent = np.array(bench.sent[-200:])
    assert (np.diff(sent, axis=0) == 0).all(axis=1).sum() >= 140


def test_auto_start_stands_up_and_walks_once(bench):
    advance = auto_start(bench.core)
    advance(bench.now)
    assert bench.core.mode is Mode.PASSIVE
    for _ in range(200):
        bench.run(bench.period)
        advance(bench.now)
    assert bench.core.mode is Mode.WALKING
    bench.core.emergency_stop()
    bench.core.reset()
    bench.run(0.5)
    assert advance(bench.now)
    assert bench.core.mode is Mode.PASSIVE
