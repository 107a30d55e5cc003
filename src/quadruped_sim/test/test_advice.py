"""Options that a refusal of a bag names exist in every verb that can print it."""

import re
from pathlib import Path

import pytest

import fcnet_replay
from fcnet_core.cli import main

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
