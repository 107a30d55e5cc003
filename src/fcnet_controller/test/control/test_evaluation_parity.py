"""The evaluation sends the targets that the controller would send in the same measured states."""

import numpy as np
import pytest
from msgspec.structs import replace as changed

from fcnet_core.model_file import load_model, shipped_model
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState
from quadruped_sim.evaluation.scenarios import Limits, Scenario
from quadruped_sim.evaluation.trial import Trial
from quadruped_sim.physics.randomization import TYPICAL
from quadruped_sim.physics.simulation import Simulation
from quadruped_sim.tasks.setpoints import SetpointRanges

TOLERANCE = 1e-5  # [rad] for rounding, of which the last action is a part in the next step


@pytest.fixture
def evaluated(robot, model, monkeypatch):
    """Runs one episode of a scenario; returns its T measured states, and the targets (1 + T, 12) [rad] sent: the
    last ones of standing up, then those sent in each state.
    """

    def evaluated(scenario):
        states, sent = [], []
        signals, step = Simulation.signals, Simulation.step

        def recorded_signals(self, **given):
            states.append(RobotState(**signals(self, **given)))
            return vars(states[-1])

        def recorded_step(self, targets, record=False):
            sent.append(targets[0].copy())
            return step(self, targets, record)

        monkeypatch.setattr(Simulation, "signals", recorded_signals)
        monkeypatch.setattr(Simulation, "step", recorded_step)
        episodes = Trial(robot.name, scenario, seed=0, number=0, size=1, model=model).run()
        assert not episodes.fell.any()
        return states, np.array(sent[-len(states) - 1 :])

    return evaluated


@pytest.fixture(scope="module")
def model(robot):
    return load_model(shipped_model(robot.name))


@pytest.mark.parametrize(("vx", "push"), [(0.15, 0.0), (2.0, 0.0), (0.4, 0.8)], ids=["slow", "running", "pushed"])
def test_evaluation_and_controller_send_the_same_targets(vx, push, evaluated, make_bench, model):
    commands = SetpointRanges({"vx": (vx, vx)}, hold=(1e9, 1e9))
    calm = changed(TYPICAL, noise=0.0)  # noise is added to the observation, which the controller assembles itself
    scenario = Scenario("parity", Limits(0.0), commands, randomization=calm, push=push, seconds=5.0, lying_share=1.0)
    states, sent = evaluated(scenario)
    bench = make_bench(model)
    bench.run(0.1)
    bench.core.stand_up(bench.now)
    bench.run(1.5)
    bench.core.walk()
    bench.core.runner.limiter.start(sent[0])  # each has stood up on its own
    for state in states:
        bench.position, bench.velocity = state.joint_position[0], state.joint_velocity[0]
        bench.orientation, bench.angular_velocity = state.orientation[0], state.angular_velocity[0]
        bench.run(bench.period, vx=vx)
        assert bench.core.mode is Mode.WALKING, bench.core.fault
    live = np.array(bench.sent[-len(states) :])
    np.testing.assert_allclose(live, sent[1:], rtol=0, atol=TOLERANCE)
