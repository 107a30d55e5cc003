"""Policies and datasets of the Hugging Face hub, by the name `hf://owner/name[@revision][/file]`.

huggingface_hub downloads them into its cache and finds them there without a network. Only weights (.safetensors) and
arrays (.npy, .json) are downloaded; neither can run code.
"""

import re
from pathlib import Path

from fcnet_core.errors import FcnetError

_NAME = re.compile(r"hf://?(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[^/]+))?(/(?P<file>.+))?", re.ASCII)


def is_hub(source: str | Path) -> bool:
    """Return whether `source` is a name on the hub; as a Path it has one slash after `hf:`."""
    return str(source).startswith("hf:/")


def hub_model(source: str | Path) -> Path:
    """Download a policy and return its local file: `file` of the repository, or its only .safetensors file."""
    folder, file = _download(source, "model", ["*.safetensors"])
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.safetensors"))
    if file in found or (len(found) == 1 and not file):
        return folder / (file or found[0])
    choices = ", ".join(found) or "no .safetensors file"
    raise FcnetError(f"{source} does not name one policy; the repository has {choices}; give hf://owner/name/file")


def hub_data(source: str | Path) -> Path:
    """Download a data set and return its local folder."""
    return _download(source, "dataset", ["manifest.json", "shard-*/*.npy", "shard-*/job.json"])[0]


def _download(source: str | Path, kind: str, patterns: list[str]) -> tuple[Path, str]:
    """Return the local folder with the files of the repository that match, and the `file` of the name."""
    parts = _NAME.fullmatch(str(source))
    if parts is None:
        raise FcnetError(f"{source} is not a name on the hub; expected hf://owner/name[@revision][/file]")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.utils import logging
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ModuleNotFoundError as error:
        raise FcnetError(f"{source} needs huggingface_hub: pip install -r requirements/sharing.txt") from error
    disable_progress_bars()
    logging.set_verbosity_error()
    try:
        folder = snapshot_download(
            parts["repo"], repo_type=kind, revision=parts["revision"], allow_patterns=patterns, library_name="fcnet"
        )
    except (HfHubHTTPError, OSError, ValueError) as error:  # unknown or private; no network and not in the cache
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        remedy = "check name, network and `hf auth login`"
        raise FcnetError(f"{source} cannot be downloaded as a {kind} ({reason}); {remedy}") from error
    return Path(folder), parts["file"] or ""
