"""The part of ROS 2's `launch_ros` that fcnet's launch files use, and the packages that colcon has installed."""

import os
from pathlib import Path


def find_prefix(package: str) -> Path:
    """Return the folder into which `package` was installed; LookupError if it is not installed."""
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        if prefix and (Path(prefix) / "share/ament_index/resource_index/packages" / package).is_file():
            return Path(prefix)
    raise LookupError(f"package '{package}' is not in this workspace: check its name, or build it with `. env.sh`")


def find_executable(package: str, executable: str) -> Path:
    """Return the program of that name in `package`; LookupError if it has none."""
    folder = find_prefix(package) / "lib" / package
    programs = {path.name: path for path in folder.glob("*") if os.access(path, os.X_OK)}
    if executable in programs:
        return programs[executable]
    known = ", ".join(sorted(programs)) or "none"
    raise LookupError(f"package '{package}' has no executable '{executable}'; it has: {known}")
