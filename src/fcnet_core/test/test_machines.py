"""fcnet on machines as people have them: full disks, other locales, no home, pipes, other users."""

import json
import os
import subprocess
import sys

import pytest
from machine import NOBODY, READ_ONLY, ROOT, needs_mounts, run, small_disk

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.errors import FcnetError
from fcnet_core.files import expanded
from fcnet_core.learning.config import folders_and_weights

BAG = str(ROOT / "docs" / "examples" / "aliengo_walk")
# Runs the verbs of its argument, in one process; prints the status and the last line of each.
VERBS = """
import contextlib, io, json, resource, sys
from fcnet_core.cli import main
limit, verbs = json.loads(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
found = []
for verb in verbs:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        status = main(verb)
    found.append([status, said.getvalue().strip()])
sys.__stdout__.write(json.dumps(found))
"""


def verbs(before: list[str], *given: list[str], limit: int = 0, user: int = 0, **variables) -> list[list]:
    result = run(before, "-c", VERBS, json.dumps([limit, given]), user=user, **variables)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@needs_mounts
def test_a_full_disk_is_one_sentence_with_the_file_and_what_is_left(tmp_path):
    disk = tmp_path / "disk"
    given = [
        ["export", "aliengo", "--weights", "fp16", "-o", str(disk / "half.safetensors")],
        ["replay", BAG, "--report", str(disk / "report.html")],
    ]
    for (status, said), verb in zip(verbs([small_disk(disk)], *given), given, strict=True):
        assert status == USAGE_ERROR
        assert verb[-1] in said and " MB left" in said and "\n" not in said


@needs_mounts
def test_a_disk_without_inodes_is_not_called_full(tmp_path):
    disk = tmp_path / "disk"
    ((status, said),) = verbs([small_disk(disk, files=1)], ["urdf", "aliengo", "-o", str(disk / "a.urdf")])
    assert status == USAGE_ERROR and "inode" in said


def test_a_limit_of_file_size_leaves_nothing_half_written(tmp_path):
    ((status, said),) = verbs([], ["dataset", "from-bag", BAG, "-o", str(tmp_path / "data")], limit=20_000)
    assert status == USAGE_ERROR and str(tmp_path / "data") in said and "ulimit" in said
    assert not list(tmp_path.iterdir())


def test_a_write_error_of_a_worker_process_is_its_sentence(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "robot: aliengo\nshards: 1\nrobots: 2\nseconds: 2\nparts:\n  walk:\n    share: 1\n"
        "    terrains: [{kind: flat}]\n    setpoints: {always: {vx: [0.0, 0.3]}}\n"
    )
    data = tmp_path / "data"
    ((status, said),) = verbs([], ["collect", "--config", str(plan), "-o", str(data)], limit=20_000)
    assert status == USAGE_ERROR and str(data / "shard-00000") in said
    assert [path.name for path in data.iterdir()] == ["manifest.json"]


@needs_mounts
def test_another_user_without_home_reads_a_read_only_installation(tmp_path):
    tmp_path.chmod(0o755)
    given = [["info", "aliengo"], ["urdf", "aliengo", "-o", "~/a.urdf"], ["dataset", "from-bag", BAG, "-o", "data"]]
    for home in ("/nonexistent", None):
        found = verbs([READ_ONLY, f"cd {tmp_path}"], *given, user=NOBODY, HOME=home)
        assert [status for status, _ in found] == [0, USAGE_ERROR, USAGE_ERROR]
        assert "/nonexistent/a.urdf" in found[1][1] and "data" in found[2][1]


@pytest.fixture(scope="module")
def locales(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locales")
    for name, charmap in (("zh_CN", "GBK"), ("de_DE", "ISO-8859-1")):
        command = ["localedef", "-i", name, "-f", charmap, str(folder / f"{name}.{charmap}")]
        try:
            subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            pytest.skip("needs localedef and its definitions (Debian: apt install locales)")
    if not list(folder.iterdir()):
        pytest.skip("needs definitions of locales (Debian: apt install locales)")
    return str(folder)


@pytest.mark.parametrize(
    "variables", [{"LC_ALL": "zh_CN.GBK"}, {"LC_ALL": "de_DE.ISO-8859-1"}, {"LC_ALL": "xx_YY"}], ids=" ".join
)
def test_output_is_replaced_where_a_terminal_cannot_show_it_and_files_are_utf_8(variables, locales, tmp_path):
    page = tmp_path / "report.html"
    command = ["-m", "fcnet_core.cli", "replay", BAG, "--report", str(page)]
    result = run([], *command, LOCPATH=locales, **variables)
    assert result.returncode == 0 and "Traceback" not in result.stderr
    assert "°" in page.read_text(encoding="utf-8")


def test_a_name_that_is_no_text_is_shown_replaced(tmp_path):
    name = f"{tmp_path}/\udcff.safetensors"
    result = run([], "-m", "fcnet_core.cli", "info", name)
    assert result.returncode == USAGE_ERROR and result.stderr.startswith("fcnet: ")


@pytest.mark.parametrize(
    ("arguments", "redirection", "status"),
    [
        ("info aliengo", ">/dev/full", USAGE_ERROR),
        ("info aliengo", ">&-", 0),
        ("info aliengo", "<&-", 0),
        ("info nothing", "2>&-", USAGE_ERROR),
    ],
)
def test_output_that_goes_nowhere_is_no_traceback(arguments, redirection, status):
    command = f"{sys.executable} -m fcnet_core.cli {arguments} {redirection}"
    result = subprocess.run(["sh", "-c", command], env=os.environ | {"PYTHONUNBUFFERED": ""}, stderr=subprocess.PIPE)
    assert result.returncode == status
    assert b"Traceback" not in result.stderr and b"Exception ignored" not in result.stderr


def test_a_home_folder_is_expanded_wherever_a_path_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for number, option in enumerate(("--out=~/{}", "-o~/{}", "--out=$HOME/{}", "-o${{HOME}}/{}")):
        assert main(["urdf", "aliengo", option.format(number)]) == 0
    assert main(["list", "--json", "~/4"]) == 0
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == list("01234")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert folders_and_weights(("~/data:2",)) == ([str(tmp_path / "home" / "data")], [2.0])
    assert [expanded(text) for text in ("a~", "$HOMEX", "hf://a/b", "-1")] == ["a~", "$HOMEX", "hf://a/b", "-1"]
    with pytest.raises(FcnetError, match="~nobody_called_so"):
        expanded("~nobody_called_so/walk")
