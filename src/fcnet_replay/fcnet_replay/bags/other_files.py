"""Files that are no bags, or others than their names say: what they are by their first bytes, and what to do."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

BAGS = {".mcap": b"\x89MCAP0\r\n", ".db3": b"SQLite format 3\0", ".bag": b"#ROSBAG V2"}
ZSTD = b"\x28\xb5\x2f\xfd"  # starts what zstd packed, and no message
ZSTD_SUFFIXES = (".zstd", ".zst")
PACKED = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\0", "lz4": b"\x04\x22\x4d\x18", "zstd": ZSTD}
ZIP, TAR, HDF5 = b"PK\x03\x04", b"ustar", b"\x89HDF"
AT_TAR, HEAD = 257, 512  # [bytes] the place of TAR in an archive, and how many are read


def is_bag_file(path: Path) -> bool:
    """Return whether the name is that of a bag file, which zstd may have packed."""
    return (Path(path.stem).suffix if path.suffix in ZSTD_SUFFIXES else path.suffix) in BAGS


def what_it_is(path: Path) -> str:
    """Return what the file is and how to make a bag of it; empty if it may be the bag that its name says.

    Special files under /proc have no size, and reading them may block.
    """
    if not path.stat().st_size:
        return ""
    with path.open("rb") as file:
        head = file.read(HEAD)
    for suffix, begin in BAGS.items():
        if head.startswith(begin) and path.suffix != suffix:
            return f"{path} is a bag file of the kind {suffix[1:]}: rename it to {path.name}{suffix}"
    packed, plain = quote(str(path)), quote(str(path.with_suffix("")))
    if path.suffix in (".rollout", ".npz", ".pt"):  # zip packs two of them
        play = f"ros2 launch fcnet_controller isaac_playback.launch.py recording:={packed}"
        return f"{path} is no bag but a recording of a simulator: {play}"
    how = {name: f"{name} -dc {packed} > {plain}" for name, begin in PACKED.items() if head.startswith(begin)}
    how |= {"zip": f"python3 -m zipfile -e {packed} {plain}"} if head.startswith(ZIP) else {}
    if head[AT_TAR:].startswith(TAR) or (how and {".tgz", ".tar"} & {*path.suffixes}):
        how = {"tar": f"tar -xf {packed}"}
    for packer, command in how.items():
        return f"{path} is packed with {packer}: unpack it ({command}), then give the bag in it"
    kind = "an HDF5 file" if head.startswith(HDF5) else f"a file of the kind {path.suffix[1:] or 'unknown'}"
    other = f"{path} is no bag but {kind}: docs/replay.md shows how to write its values as a bag"
    return "" if path.suffix in BAGS else other
