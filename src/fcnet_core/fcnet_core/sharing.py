"""Policies and datasets handed on: copied to a folder or to the Hugging Face hub with checksums, which fetching checks.

What is shared is a policy file with its card, the Markdown file of the same name beside it, which becomes README.md; or
the folder of a dataset, ours or one exported to LeRobot. SHA256SUMS, in the form of `sha256sum`, names every file.
"""

from __future__ import annotations

import glob
import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from fcnet_core.errors import FcnetError
from fcnet_core.files import new_folder, read_file, write_whole
from fcnet_core.learning.dataset import Dataset
from fcnet_core.learning.spread import NAME as STATISTICS
from fcnet_core.model_file import find_model, load_model, model_path
from fcnet_core.runs.folder import RunFolder

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SUMS = "SHA256SUMS"
CARD = "README.md"  # which the hub shows
Kind = Literal["model", "dataset"]  # in the hub's words
KINDS: tuple[Kind, ...] = ("model", "dataset")
LARGEST_SUMS = 64 * 2**20  # [bytes]
_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_SUM = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<name>.+)")


def push(source: Path, destination: str) -> list[str]:
    """Copy a policy with its card, or a dataset, to a new folder or into a repository of the hub; return its files.

    Raises FcnetError when it is neither, is damaged, or cannot be written there. In a repository it is one commit; a
    new repository is private.
    """
    kind, files = _contents(source)
    sums = "".join(f"{_digest(path)}  {name}\n" for name, path in sorted(files.items())).encode()
    if is_hub(destination):
        _upload(destination, kind, {**files, SUMS: sums})
        return sorted(files)
    with new_folder(Path(destination)) as partial:
        for name, path in files.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, partial / name)
        write_whole(partial / SUMS, sums)
        _check(partial, destination)
    return sorted(files)


def pull(source: str, folder: Path) -> list[str]:
    """Copy what was pushed to a folder or to the hub into the new folder `folder`; return its files.

    Raises FcnetError, and leaves nothing, when a file is not what its checksum promises, or is no sound policy or
    dataset. Files that SHA256SUMS does not name stay where they are.
    """
    with new_folder(folder) as partial:
        if is_hub(source):
            _download(source, partial)
        else:
            _copy(Path(source), partial)
        names = _check(partial, source)
        try:
            for path in sorted(partial.glob("*.safetensors")) or [partial]:
                _contents(path)
        except FcnetError as error:
            raise FcnetError(f"{source} holds nothing sound: {error}") from error
    return names


def is_hub(place: str) -> bool:
    """Whether a place is OWNER/NAME on the hub: where there is no folder OWNER here, and it does not begin with `.`."""
    return _HUB.fullmatch(place) is not None and not Path(place).parent.exists()


def _contents(source: Path) -> tuple[Kind, dict[str, Path]]:
    """What is shared of `source`: its kind, and its files by the name that they shall have.

    Raises FcnetError when it is unsound; the data of a folder of LeRobot are looked at when they are imported.
    """
    if source.is_file() or find_model(source):
        model = model_path(source)
        load_model(model)
        card = (RunFolder(source).evaluation if source.is_dir() else model).with_suffix(".md")
        return "model", {model.name: model, **({CARD: card} if card.is_file() else {})}
    if (source / "manifest.json").is_file():
        Dataset(source)
    elif not (source / "meta/info.json").is_file():
        raise FcnetError(
            f"{source} is neither a policy file nor the folder of a dataset; give the path of one, or of a training "
            "run, or a name of `fcnet list models`"
        )
    paths = {path.relative_to(source).as_posix(): path for path in source.rglob("*") if path.is_file()}
    left_out = (SUMS, STATISTICS)  # both are made anew
    return "dataset", {
        name: path for name, path in paths.items() if name not in left_out and not re.search(r"(^|/)\.", name)
    }


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _sums(folder: Path, source: str) -> dict[str, str]:
    """The checksums by the name of the file, of names that stay within the folder."""
    if not (folder / SUMS).is_file():
        raise FcnetError(f"{source} has no {SUMS}; give a place to which `fcnet push` has written")
    sums = {}
    for line in read_file(folder / SUMS, "list of checksums", LARGEST_SUMS).decode(errors="replace").splitlines():
        found = _SUM.fullmatch(line)
        name = PurePosixPath(found["name"]) if found else PurePosixPath("/")
        if found is None or not name.name or name.is_absolute() or any(part.startswith(".") for part in name.parts):
            raise FcnetError(f"{SUMS} of {source} cannot be used: it has the line {line[:100]!r}; push it again")
        sums[str(name)] = found["digest"]
    return sums


def _check(folder: Path, source: str) -> list[str]:
    """Compare every file with its checksum; return their names."""
    sums = _sums(folder, source)
    for name, digest in sums.items():
        path = folder / name
        if not path.is_file():
            raise FcnetError(f"{source} lacks {name}, which its {SUMS} names; push it again")
        if (found := _digest(path)) != digest:
            raise FcnetError(
                f"{name} of {source} is not the file that was pushed: its SHA-256 is {found[:12]}..., expected "
                f"{digest[:12]}...; push it again"
            )
    return sorted(sums)


def _copy(source: Path, folder: Path) -> None:
    for name in (SUMS, *_sums(source, str(source))):
        if (source / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, folder / name)


@contextmanager
def _hub(place: str) -> Iterator[HfApi]:
    """The hub's client, whose errors become sentences."""
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ModuleNotFoundError as error:
        raise FcnetError(
            f"{place} is on the hub, which needs the Python package huggingface_hub: "
            f"`pip install -r requirements/sharing.txt` installs it; for a folder write ./{place}"
        ) from error
    disable_progress_bars()
    try:
        yield HfApi(library_name="fcnet")
    except FcnetError:
        raise
    except Exception as error:  # the client's HTTP libraries have no common one
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise FcnetError(
            f"the hub did not do it for {place} ({reason[0]}); check name, network and `hf auth login`; for a folder "
            f"write ./{place}"
        ) from error


def _upload(place: str, kind: Kind, files: Mapping[str, Path | bytes]) -> None:
    with _hub(place) as api:
        from huggingface_hub import CommitOperationAdd

        api.create_repo(place, repo_type=kind, private=True, exist_ok=True)
        operations: list[Any] = [CommitOperationAdd(name, content) for name, content in files.items()]
        api.create_commit(place, operations, commit_message="fcnet push", repo_type=kind)


def _download(place: str, folder: Path) -> None:
    """Fetch SHA256SUMS and what it names, all of one commit."""
    with _hub(place) as api:
        kind = next((kind for kind in KINDS if api.repo_exists(place, repo_type=kind)), None)
        if kind is None:
            raise FcnetError(f"there is neither a model nor a dataset {place} on the hub; for a folder write ./{place}")
        commit = api.repo_info(place, repo_type=kind).sha
        if api.file_exists(place, SUMS, repo_type=kind, revision=commit):
            api.hf_hub_download(place, SUMS, repo_type=kind, revision=commit, local_dir=folder)
        names = [glob.escape(name) for name in _sums(folder, place)]
        api.snapshot_download(place, repo_type=kind, revision=commit, allow_patterns=names, local_dir=folder)
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # notes of the client
