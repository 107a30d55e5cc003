"""Files that are no bags, or others than their names say: what they are by their first bytes, and what to do."""

from __future__ import annotations

import shlex
from pathlib import Path

BAGS = {".mcap": b"\x89MCAP0\r\n", ".db3": b"SQLite format 3\0", ".bag": b"#ROSBAG V2"}
PACKED = {  # by the first bytes: what packed them, and the command that unpacks
    b"\x1f\x8b": ("gzip", "gunzip -c {packed} > {plain}"),
    b"BZh": ("bzip2", "bunzip2 -c {packed} > {plain}"),
    b"\xfd7zXZ\0": ("xz", "xz -dc {packed} > {plain}"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc {packed} > {plain}"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc {packed} > {plain}"),
    b"7z\xbc\xaf": ("7z", "7z x {packed}"),
    b"PK\x03\x04": ("zip", "python3 -m zipfile -e {packed} {plain}"),
}
TAR, AT_TAR = b"ustar", 257  # in an archive of tar, and its place [bytes]
ROLLOUTS = (".rollout", ".npz", ".pt")  # zip packs two of them
HEAD = 512  # [bytes] that are read


def is_bag_file(path: Path) -> bool:
    """Return whether the name is that of a bag file, which zstd may have packed."""
    return (Path(path.stem).suffix if is_packed(path) else path.suffix) in BAGS


def is_packed(path: Path) -> bool:
    """Return whether the name is that of a file packed with zstd."""
    return path.suffix in (".zstd", ".zst")


def what_it_is(path: Path) -> str:
    """Return what the file is and how to make a bag of it; empty if it may be the bag that its name says.

    Special files under /proc have no size, and reading them may block.
    """
    if not path.stat().st_size:
        return ""
    with path.open("rb") as file:
        head = file.read(HEAD)
    for suffix, begin in BAGS.items():
        if head.startswith(begin):
            rename = f"{path} is a bag file of the kind {suffix[1:]}: rename it to {path.name}{suffix}"
            return "" if path.suffix == suffix else rename
    names = {"packed": shlex.quote(str(path)), "plain": shlex.quote(str(path.with_suffix("")))}
    if path.suffix in ROLLOUTS:
        how = f"ros2 launch fcnet_controller isaac_playback.launch.py recording:={names['packed']}"
        return f"{path} is no bag but a recording of a simulator: {how}"
    if head[AT_TAR:].startswith(TAR) or path.suffix == ".tgz" or ".tar" in path.suffixes:
        return f"{path} is an archive of tar: unpack it (tar -xf {names['packed']}), then give the bag in it"
    for begin, (packer, command) in PACKED.items():
        if head.startswith(begin):
            return f"{path} is packed with {packer}: unpack it ({command.format(**names)}), then give the bag in it"
    if path.suffix in BAGS:
        return ""
    kind = "an HDF5 file" if head.startswith(b"\x89HDF") else f"a file of the kind {path.suffix[1:] or 'unknown'}"
    return f"{path} is no bag but {kind}: docs/replay.md shows how to write its values as a bag"
