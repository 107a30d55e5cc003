"""A recorded run relabelled by the expert: where the expert drove, the labels are what was sent. Options that the
refusal of a bag names exist.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_bag
import numpy as np
import pytest

import fcnet_replay
from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.learning.dataset import Dataset
from fcnet_core.model_file import load_model
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import Robot, load_robot
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_replay.datasets.from_bag import Labels
from fcnet_replay.datasets.validation import faults
from fcnet_replay.isaac import FIRST, Header, run_of_rows
from fcnet_replay.policy_replay import Steps
from fcnet_replay.run import OdometryRecord, StepRecord
from quadruped_sim.physics.randomization import NOMINAL
from quadruped_sim.physics.simulation import BodyState
from quadruped_sim.physics.terrain import Flat
from quadruped_sim.relabel import advise, recorded_states
from quadruped_sim.rollout import Rollout
from quadruped_sim.tasks.setpoints import SetpointRanges

STEPS = 150
FOLDED = np.tile([0.0, 2.0, -2.7], 4)  # the trunk hardly off the ground
NO_ODOMETRY = OdometryRecord(*(np.empty(0),) * 2, np.empty((0, 3)), np.empty((0, 4)), *(np.empty((0, 3)),) * 2)


class Walk:
    """The expert walking forward in simulation, as a recording holds it: run and steps, and the truth."""

    def __init__(self, robot: Robot) -> None:
        ranges = SetpointRanges(always={"vx": (0.6, 0.6), "yaw_rate": (0.3, 0.3)})
        rollout = Rollout(robot, 1, Flat(), ranges, NOMINAL, seed=0)
        states, observations, targets = [], [], []
        for _ in range(STEPS):
            seen = rollout.observe()
            targets.append(rollout.advise(seen)[0])
            states.append(seen.state)
            observations.append(seen.observation[0])
            rollout.send(targets[-1][None])
        self.truth = BodyState(**{name: np.concatenate([vars(s)[name] for s in states]) for name in vars(states[0])})
        time, row = 1000.0 + 0.02 * np.arange(STEPS), np.arange(STEPS)
        truth, first, certain = self.truth, row == 0, np.ones(STEPS, dtype=bool)
        joints = load_robot("aliengo").joint_names
        header = Header(period=0.02, joint_names=joints, commands=())  # the recorded commands are used
        rows = np.zeros(STEPS, header.row_type("<f8"))
        rows["time"], rows["flags"][0], rows["target"] = time, FIRST, np.array(targets)
        rows["joint_position"], rows["joint_velocity"] = truth.joint_position, truth.joint_velocity
        turning = (matrix_from_xyzw(truth.orientation) @ truth.angular_velocity[..., None])[..., 0]
        rows["root_state"] = np.hstack([truth.position, truth.orientation, truth.linear_velocity, turning])
        self.run = run_of_rows(header, rows, "the walk")
        command = np.array(observations, dtype=np.float64)[:, LAYOUT["command"]]
        clock = np.arctan2(command[:, 8], command[:, 9]) / (2 * np.pi) % 1.0, command[:, 10] > 0.5
        record = StepRecord(
            time, np.append(time[:1], time[:-1]), time, time, first, command[..., [*range(8), 11]], *clock
        )
        none, seen = np.zeros(STEPS, dtype=np.int64), (row, row, row, np.maximum(row - 1, 0))
        self.steps = Steps("recorded", record, *seen, none, certain, certain)

    def advice(self, robot: Robot, **records: Any) -> Labels:
        """The expert's, with some of the run's records replaced."""
        return advise(replace(self.run, **records), self.steps, np.arange(STEPS) == 0, robot, 0.02)


@pytest.fixture(scope="module")
def walk(aliengo: Robot) -> Walk:
    return Walk(aliengo)


def rms(error: np.ndarray) -> float:
    return float(np.sqrt(np.square(error).mean()))


def test_where_odometry_was_recorded_the_expert_repeats_itself(walk: Walk, aliengo: Robot) -> None:
    advice = walk.advice(aliengo)
    assert advice.known.all() and np.flatnonzero(advice.first).tolist() == [0]
    assert advice.facts == {"velocity_from_odometry": 1.0}
    np.testing.assert_allclose(advice.target, walk.run.targets.position, atol=1e-6)


def test_without_odometry_the_velocity_of_the_legs_is_nearly_as_good(walk: Walk, aliengo: Robot) -> None:
    states, by_odometry = recorded_states(replace(walk.run, odometry=NO_ODOMETRY), walk.steps, aliengo)
    assert not by_odometry.any()
    assert rms(states.linear_velocity[20:, :2] - walk.truth.linear_velocity[20:, :2]) < 0.15
    assert rms(states.position[:, 2] - walk.truth.position[:, 2]) < 0.01
    advice = walk.advice(aliengo, odometry=NO_ODOMETRY)
    assert advice.known.all() and rms(advice.target - walk.run.targets.position) < 0.05


def test_states_beyond_the_expert_are_left_out_and_it_begins_anew(walk: Walk, aliengo: Robot) -> None:
    orientation = walk.run.imu.orientation.copy()
    orientation[60:80] = [1.0, 0.0, 0.0, 0.0]  # on its back
    joints = walk.run.joints.position.copy()
    joints[100] = aliengo.upper + 1.0
    joints[120:125] = FOLDED
    advice = walk.advice(
        aliengo,
        imu=replace(walk.run.imu, orientation=orientation),
        joints=replace(walk.run.joints, position=joints),
        odometry=NO_ODOMETRY,
    )
    assert not advice.known[60:80].any() and not advice.known[[100, 120, 124]].any()
    assert advice.known.sum() == STEPS - 26 == STEPS - sum(advice.left_out.values())
    assert np.flatnonzero(advice.first).tolist() == [0, 80, 101, 125]
    assert advice.left_out["the robot is tilted by more than 60 degrees"] == 20
    assert advice.left_out["the trunk is near the ground"] + advice.left_out["a joint is beyond its limit"] == 6


def test_a_bag_of_a_failed_run_becomes_data_up_to_the_fault(aliengo: Robot, tmp_path: Path, capsys: Any) -> None:
    class FailedRun(made_bag.MadeBag):
        def _messages(self) -> list[Any]:
            return [*super()._messages(), (4.0, "controller/mode", made_bag.text("fault"))]

    def verb(*words: str, to: str) -> int:
        return main([*words, str(bag), "--robot", "aliengo", "-o", str(tmp_path / to)])

    model = load_model(Path(__file__).parents[4] / "models" / "aliengo.safetensors")
    bag = FailedRun(model, aliengo, rate=100.0).write(tmp_path / "fall")
    assert verb("relabel", to="data") == 0
    assert "199 steps relabelled" in capsys.readouterr().out and not list(faults(tmp_path / "data"))
    data = Dataset(tmp_path / "data")
    (described,) = data.manifest.description["bags"]
    assert data.steps == described["relabelled"] == 199 and described["velocity_from_odometry"] == 1.0
    assert verb("dataset", "from-bag", to="sent") == 0
    sent = Dataset(tmp_path / "sent").shards[0]
    np.testing.assert_array_equal(data.shards[0].observation[:, :149], sent.observation)
    assert np.abs(data.shards[0].action[:, :149] - sent.action).max() > 0.05
    assert verb("relabel", "--rate", "100", to="x") == USAGE_ERROR
    assert "50 steps a second" in capsys.readouterr().err


PACKAGE = Path(fcnet_replay.__file__).parent
VERBS = {"replay": ("replay",), "from-bag": ("dataset", "from-bag"), "relabel": ("relabel",)}
OF_DATA, OF_REPLAYS = ("datasets/from_bag.py",), ("evaluation.py",)  # printed by some of the verbs only
OTHERS = ("isaac", "verbs", "report", "datasets")  # folders of what reads no bag
OTHER_PROGRAMS = ("ros2 bag", "rosbags-convert")


def named_options(path: Path) -> set[str]:
    """Options of `fcnet` that a module's lines of code name."""
    lines = [line for line in path.read_text().splitlines() if not any(other in line for other in OTHER_PROGRAMS)]
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "\n".join(lines)))


def modules(verb: str) -> list[Path]:
    readers = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in OTHERS]
    own = OF_REPLAYS if verb == "replay" else OF_DATA
    return [path for path in readers if path.name not in OF_REPLAYS] + [PACKAGE / name for name in own]


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_that_a_sentence_names_exists(verb, capsys) -> None:
    with pytest.raises(SystemExit):
        main([*VERBS[verb], "--help"])
    has = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    named = {option: path.name for path in modules(verb) for option in named_options(path)}
    assert {"--robot", "--namespace", "--topics"} <= named.keys()
    assert {option: name for option, name in named.items() if option not in has} == {}
