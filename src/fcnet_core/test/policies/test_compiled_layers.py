"""Compiled layers of any size are NumPy's to float32 rounding. No compiled code outlives its source, and functions are
compiled whether or not numba's cache can be read and written.
"""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from machine import NOBODY, needs_mounts, open_to_all, run, small_disk
from numba import njit

import fcnet_core
from fcnet_core.model_file import save_model
from fcnet_core.policies.compiled_layers import exponential, gelu, gelu_tanh, linear, stored

LOAD = """
from fcnet_core.model_file import load_model
from fcnet_core.policy import load_policy
load_policy(load_model("policy.safetensors"), "numba")
"""


@pytest.mark.parametrize("half", [False, True], ids=["float32", "fp16"])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (12, 128), (16, 3), (127, 70), (128, 5), (300, 64)])
def test_a_linear_layer_is_that_of_numpy_and_writes_nothing_else(outputs: int, inputs: int, half: bool) -> None:
    random = np.random.default_rng(outputs)
    shapes = (2, outputs, inputs), outputs, inputs
    weight, bias, x = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    space = np.full(outputs + 16, np.nan, dtype=np.float32)
    matrices = stored(weight, half)
    for layer in range(2):
        linear(x, matrices[layer], bias, space[:outputs])
        rounded = weight[layer].astype(np.float16 if half else np.float32).astype(float)
        np.testing.assert_allclose(space[:outputs], rounded @ x + bias, atol=1e-4, rtol=1e-5)
        assert np.isnan(space[outputs:]).all()


def test_a_step_that_was_compiled_before_a_layer_changed_is_not_used_any_more(small, tmp_path: Path) -> None:
    package = tmp_path / "fcnet_core"
    shutil.copytree(Path(fcnet_core.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "models"))
    save_model(small.model, tmp_path / "policy.safetensors")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def compiled() -> int:
        """How many steps the cache holds when a policy has been loaded."""
        subprocess.run([sys.executable, "-c", LOAD], cwd=tmp_path, env=environment, check=True, timeout=300)
        return len(list((tmp_path / "cache").rglob("*.steps-*.nbc")))

    assert [compiled(), compiled()] == [1, 1]
    with (package / "policies" / "compiled_layers.py").open("a") as changed:
        changed.write("# another layer\n")
    assert compiled() == 2


MODULE = """
from fcnet_core.policies.compile_cache import cached_njit
@cached_njit(nogil=True)
def twice(x):
    return 2 * x
"""
CALL = "import sys; sys.path.insert(0, sys.argv[1]); import compiled; print(compiled.twice(4))"


@pytest.fixture
def module(tmp_path):
    """A folder with a compiled function, which everybody may read."""
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "compiled.py").write_text(MODULE)
    open_to_all(folder)
    return folder


def test_a_damaged_cache_is_written_again(module, tmp_path):
    def called() -> str:
        result = run([], "-c", CALL, str(module), NUMBA_CACHE_DIR=str(cache))
        assert result.returncode == 0, result.stderr
        return result.stdout

    cache = tmp_path / "cache"
    assert called() == "8\n"
    (index,) = cache.rglob("*.nbi")
    index.write_bytes(b"")  # a power loss
    assert called() == "8\n" and index.read_bytes()


@needs_mounts
@pytest.mark.parametrize("user", [0, NOBODY])
def test_a_function_is_compiled_without_a_folder_for_its_cache(module, tmp_path, user):
    disk = tmp_path / "disk"
    before = [small_disk(disk, "8k"), f"chmod 777 {disk}", f"mount --bind {module} {module}"]
    before += [f"mount -o remount,bind,ro {module}"]
    variables = {"NUMBA_CACHE_DIR": str(disk)} if user == 0 else {"HOME": "/nonexistent"}
    result = run(before, "-c", CALL, str(module), user=user, **variables)
    assert (result.stdout, result.returncode) == ("8\n", 0), result.stderr


@njit
def exponentials(x):
    y = np.empty_like(x)
    for i in range(x.size):
        y[i] = exponential(x[i])
    return y


def exact_gelu(x: np.ndarray) -> np.ndarray:
    return np.array([value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x])


def exact_gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("compiled", "exact", "further"), [(gelu, exact_gelu, []), (gelu_tanh, exact_gelu_tanh, [-1e6, -300.0, 300.0, 1e6])]
)
def test_gelu_is_exact_to_float32_rounding(compiled, exact, further) -> None:
    x = np.concatenate([np.linspace(-10, 10, 100_001), further]).astype(np.float32)
    wide, found = x.astype(float), x.copy()
    compiled(found)
    assert (np.abs(found - exact(wide)) / np.maximum(1.0, np.abs(wide))).max() < 3e-7


def test_the_exponential_is_exact_to_float32_rounding_of_its_argument() -> None:
    x = np.linspace(-87, 87, 200_001, dtype=np.float32)
    error = np.abs(exponentials(x) / np.exp(x.astype(float)) - 1)
    assert (error / (1 + np.abs(x))).max() < 1.5e-7
    assert exponentials(np.array([-1e30, -1e3], dtype=np.float32)).max() < 1e-37
    assert exponentials(np.zeros(1, dtype=np.float32))[0] == 1.0
