"""What holds for the tests of every package."""

import os
import signal

import pytest
from hypothesis import settings

# Products of the tests are small: threads that wait for each other take several times the processor time of one.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

LONGEST = "sim_bridge"  # the package whose tests take longest

settings.register_profile("busy_machine", deadline=None, max_examples=50)
settings.load_profile("busy_machine")

# A run that was started in the background ignores Ctrl-C, and so would every program that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with LONGEST where processes share the files of tests (pytest-xdist, `--dist loadfile`)."""
    if config.pluginmanager.hasplugin("xdist"):
        items.sort(key=lambda item: LONGEST not in item.path.parts)
