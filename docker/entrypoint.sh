#!/bin/bash
# Opens the workspace and becomes the command, so that the command gets the signals of `docker stop`.
set -e
source "/opt/ros/${ROS_DISTRO}/setup.bash"
source /opt/fcnet/env.sh
exec "$@"
