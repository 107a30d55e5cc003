"""Attacks of every class (benchmarks/bridge/attacker.py), with the limits of a busy computer."""

import json
import subprocess
import sys
from pathlib import Path

ATTACKER = Path(__file__).parents[3] / "benchmarks" / "bridge" / "attacker.py"
DURATION = 15.0  # [s], or until every class was tried


def test_attacks_end_no_program_and_bring_nothing_unsafe_to_the_wire(tmp_path):
    options = ["--duration", str(DURATION), "--physics", "joints", "--busy"]
    finished = subprocess.run([sys.executable, ATTACKER, *options, "--json", tmp_path / "result.json"])
    result = json.loads((tmp_path / "result.json").read_text())
    violations = {one["attack"]: one["violations"] for one in result["outcomes"] if one["violations"]}
    assert violations == {} and finished.returncode == 0
    assert {one["kind"] for one in result["outcomes"]} == {"topic", "service", "wire"}
    assert result["commands"] > 100 * DURATION
