"""A function is compiled whether or not numba's cache can be read and written."""

import pytest
from machine import NOBODY, needs_mounts, open_to_all, run, small_disk

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
