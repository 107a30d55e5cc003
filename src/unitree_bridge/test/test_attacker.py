"""A minute of the attacker (benchmarks/bridge/attacker.py), judged as on a computer that is busy with other tests."""

from attacker import run

DURATION = 60.0  # [s]
SEED = 5  # with attacks of every class among the first


def test_a_minute_of_attacks_ends_no_program_and_brings_nothing_unsafe_to_the_wire():
    result = run("aliengo", DURATION, SEED, physics="joints", strict=False)
    violations = {one["attack"]: one["violations"] for one in result["outcomes"] if one["violations"]}
    assert violations == {}
    assert result["attacks"] > 1
    assert result["commands"] > 100 * DURATION
