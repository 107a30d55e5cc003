"""Whether a changed policy walks worse than the one it was made of: both in the same episodes, side by side."""

from __future__ import annotations

import math

from tqdm import tqdm

from fcnet_core.model_file import PolicyModel
from fcnet_core.robot import load_robot
from quadruped_sim.evaluation.scenarios import Scenario, scenarios
from quadruped_sim.evaluation.score import Episodes, join
from quadruped_sim.evaluation.trial import trials
from quadruped_sim.rollout import check_walks_here
from quadruped_sim.worker_pool import worker_pool

SECONDS = 10.0  # longer scenarios are left out
LEAST_RETURN = 0.995  # of the return before, in the mean over the scenarios
CHANCE = 0.05  # as often would at least so many more falls come about by chance


def shortcomings(before: PolicyModel, after: PolicyModel, episodes: int) -> list[str]:
    """What is worse about `after` than about `before`, in sentences; none where nothing is.

    In every scenario of up to 10 s, `episodes` of most. More falls count where they are too many for chance, of the
    episodes in which just one of the two falls (sign test, one-sided, over all scenarios together).
    """
    robot = load_robot(before.card.robot)
    check_walks_here(before, robot)
    chosen = [scenario for scenario in scenarios(robot).values() if scenario.seconds <= SECONDS]
    first, second = (_episodes(robot.name, chosen, model, episodes) for model in (before, after))
    found = []
    only_after = sum(int((b.fell & ~a.fell).sum()) for a, b in zip(first, second, strict=True))
    only_before = sum(int((a.fell & ~b.fell).sum()) for a, b in zip(first, second, strict=True))
    if sign_test(only_after, only_before) < CHANCE:
        found.append(f"it falls in {only_after} episodes in which it did not, and no more in {only_before} others")
    shares = [b.returned.mean() / a.returned.mean() for a, b in zip(first, second, strict=True)]
    if (share := float(sum(shares)) / len(shares)) < LEAST_RETURN:
        found.append(f"its mean return is {share:.1%} of what it was")
    return found


def sign_test(more: int, fewer: int) -> float:
    """How often chance alone gives at least `more` of all, where either is equally likely."""
    total = more + fewer
    return sum(math.comb(total, count) for count in range(more, total + 1)) / 2**total


def _episodes(robot: str, chosen: list[Scenario], model: PolicyModel, episodes: int) -> list[Episodes]:
    work = [trials(robot, scenario, episodes, seed=0, model=model) for scenario in chosen]
    with worker_pool(2) as pool:
        waiting = [[pool.submit(trial.run) for trial in parts] for parts in work]
        bar = tqdm(waiting, desc="evaluating", unit="scenario", leave=False, disable=None)
        return [join([future.result() for future in parts]) for parts in bar]
