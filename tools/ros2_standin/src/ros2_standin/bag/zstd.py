"""The one compression that bags are written with."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# rosbag2's presets for mcap: the level of each.
LEVELS = {"none": None, "zstd_fast": 1, "zstd_small": 19}
compress = zstd.compress
decompress = zstd.decompress
ZstdError = zstd.ZstdError
