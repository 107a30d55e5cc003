"""A minute of the attacker (benchmarks/bridge/attacker.py), judged as on a computer that is busy with other tests."""

import json
import subprocess
import sys
from pathlib import Path

ATTACKER = Path(__file__).parents[3] / "benchmarks" / "bridge" / "attacker.py"
DURATION = 60.0  # [s]
SEED = 5  # with attacks of every class among the first


def test_a_minute_of_attacks_ends_no_program_and_brings_nothing_unsafe_to_the_wire(tmp_path):
    options = ["--duration", str(DURATION), "--seed", str(SEED), "--physics", "joints", "--busy"]
    finished = subprocess.run([sys.executable, ATTACKER, *options, "--json", tmp_path / "result.json"])
    result = json.loads((tmp_path / "result.json").read_text())
    violations = {one["attack"]: one["violations"] for one in result["outcomes"] if one["violations"]}
    assert violations == {} and finished.returncode == 0
    assert result["attacks"] > 1
    assert result["commands"] > 100 * DURATION
