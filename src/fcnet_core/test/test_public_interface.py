"""The flat public interface: it is imported quickly, documented, and its examples run."""

import ast
import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import fcnet_core

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
QUICK = "import sys, fcnet_core; print(*[n for n in ('numpy', 'torch', 'numba', 'msgspec') if n in sys.modules])"


def test_importing_the_package_loads_no_library() -> None:
    assert subprocess.run([sys.executable, "-c", QUICK], capture_output=True, check=True, text=True).stdout == "\n"


def test_every_public_name_is_imported_declared_for_type_checkers_and_documented() -> None:
    tree = ast.parse(Path(fcnet_core.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {alias.name: node.module for node in block.body for alias in node.names}
    assert sorted(declared) == fcnet_core.__all__
    for name, module in declared.items():
        assert getattr(fcnet_core, name) is getattr(import_module(module), name)
    section = PAGE.read_text().split("## Public names")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)", section, re.MULTILINE)) == set(fcnet_core.__all__)
    assert not hasattr(fcnet_core, "load_nothing")


@pytest.mark.parametrize("name", [None, *fcnet_core.__all__])
def test_examples_of_the_public_interface_run(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    public = {name: getattr(fcnet_core, name) for name in fcnet_core.__all__}
    tested = fcnet_core if name is None else public[name]
    finder, names = doctest.DocTestFinder(recurse=name is not None), public | {"np": np, "numpy": np, "torch": torch}
    tests = finder.find(tested, name or "fcnet_core", globs=names, module=False)
    assert sum(doctest.DocTestRunner().run(test).failed for test in tests) == 0
    if name is not None and name.startswith("load_"):
        assert any(test.examples for test in tests), f"{name} has no example"
