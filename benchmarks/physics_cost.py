"""What each effect of a real robot costs a policy in simulation: falls and speed error, against the kind simulator.

python benchmarks/physics_cost.py models/aliengo.safetensors --episodes 60 --json /tmp/aliengo.json

Each row adds one effect to the simulator of the first release (randomization.KIND), the last but one has all of them
(TYPICAL), the last TYPICAL with the torsional and rolling friction of rubber feet. Robots begin standing. A cell has
the falls and the mean absolute error of vx [m/s]. With --json, an interrupted measurement goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec.structs import replace as changed

from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.robot import load_robot
from quadruped_sim.evaluation.scenarios import scenarios
from quadruped_sim.evaluation.score import Score, join, score_of
from quadruped_sim.evaluation.trial import trials
from quadruped_sim.physics.randomization import KIND, SIMPLE, TYPICAL, Randomization
from quadruped_sim.worker_pool import worker_pool

SCENARIOS = ("flat", "run_2.0", "pushes", "slope_15deg_up", "stairs_10cm_up", "stairs_10cm_down")


def _typical(*names: str) -> Randomization:
    """The kind simulator with these ranges of the realistic one."""
    return changed(KIND, **{name: getattr(TYPICAL, name) for name in names})


def _effect(name: str) -> Randomization:
    return changed(KIND, effects=changed(SIMPLE, **{name: True}))


SIMULATORS: dict[str, Randomization] = {
    "kind simulator": KIND,
    "torque-speed curve": _effect("torque_speed_curve"),
    "self-collision": _effect("self_collision"),
    "elliptic cones, impratio 100": _effect("elliptic_cones"),
    "centre of mass +-5 cm": _typical("com"),
    "joint zeros +-0.02 rad": _typical("joint_zero"),
    "joint friction, damping x 0.5 to 1.5": _typical("joint_friction", "joint_damping"),
    "armature, motor strength x 0.9 to 1.1": _typical("armature", "strength"),
    "10 ms of jitter": _typical("jitter"),
    "dropouts up to 100 ms": _typical("dropout", "dropout_interval"),
    "all (TYPICAL)": TYPICAL,
    "all, rolling friction (condim 6)": changed(TYPICAL, effects=changed(TYPICAL.effects, rolling_friction=True)),
}


def main() -> None:
    """Measure what is not in the JSON file yet and print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path)
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    model = load_model(args.policy)
    done: dict[str, str] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    with worker_pool(args.processes) as pool:
        for scenario in SCENARIOS:
            for simulator in SIMULATORS:
                key = f"{scenario}: {simulator}"
                if key in done:
                    continue
                score = _measure(pool, model, scenario, simulator, args.episodes, args.seed)
                done[key] = f"{score.falls} of {score.episodes}, {score.velocity[0]:.3f}"
                if args.json:
                    args.json.write_text(json.dumps(done, indent=1))
    print(f"| {' | '.join(['simulator', *SCENARIOS])} |\n{'|---' * (1 + len(SCENARIOS))}|")
    for simulator in SIMULATORS:
        print(f"| {' | '.join([simulator, *(done[f'{scenario}: {simulator}'] for scenario in SCENARIOS)])} |")


def _measure(pool: Any, model: PolicyModel, name: str, simulator: str, episodes: int, seed: int) -> Score:
    known = scenarios(load_robot(model.card.robot))[name]
    scenario = replace(known, randomization=SIMULATORS[simulator], lying_share=0.0)
    parts = trials(model.card.robot, scenario, episodes, seed, model)
    work = {pool.submit(part.run): part.number for part in parts}
    results = {work[future]: future.result() for future in as_completed(work)}
    return score_of(scenario, join([results[number] for number in sorted(results)]))


if __name__ == "__main__":
    main()
