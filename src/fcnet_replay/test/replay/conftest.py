"""Bags of a made-up walk (benchmarks/made_bag.py), of which tests know what replay must find."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from fcnet_core.model_file import load_model
from fcnet_core.robot import load_robot

ROOT = Path(__file__).parents[4]


def made_bag_module():
    spec = spec_from_file_location("made_bag", ROOT / "benchmarks" / "made_bag.py")
    module = module_from_spec(spec)
    sys.modules["made_bag"] = module
    spec.loader.exec_module(module)
    return module


MADE_BAG = made_bag_module()


@pytest.fixture(scope="session")
def made_bag():
    return MADE_BAG


@pytest.fixture(scope="session")
def robot():
    return load_robot("aliengo")


@pytest.fixture(scope="session")
def model():
    return load_model(ROOT / "models" / "aliengo.safetensors")


@pytest.fixture(scope="session")
def write_bag(model, robot, tmp_path_factory):
    """Writes a bag of a MadeBag with these settings and returns its folder; the same settings, the same folder."""
    written = {}

    def write(**settings):
        key = repr(sorted(settings.items()))
        if key not in written:
            folder = tmp_path_factory.mktemp("bags") / "walk"
            written[key] = MADE_BAG.MadeBag(model, robot, **settings).write(folder), settings  # a key names functions
        return written[key][0]

    return write
