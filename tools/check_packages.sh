#!/bin/sh
# Every package must be one that ROS finds: an invalid package.xml would be built as plain Python without a word.
set -eu
cd "$(dirname "$0")/.."
wrong=
for folder in src/*/; do
    name=$(basename "$folder")
    colcon --log-level error list --base-paths src --packages-select "$name" 2>/dev/null |
        grep -q "(ros.ament_python)" || wrong="$wrong $name"
done
[ -z "$wrong" ] || { echo "fcnet: colcon does not see as ros.ament_python:$wrong; check the package.xml" >&2; exit 1; }
