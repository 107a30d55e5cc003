#!/bin/bash
# Opens the workspace and becomes the command, so that the command gets the signals of `docker stop`.
set -e
source "/opt/ros/${ROS_DISTRO}/setup.bash"
source /opt/fcnet/env.sh
# Humble knows no ROS_AUTOMATIC_DISCOVERY_RANGE: this is its way to keep to this computer.
if [ "$ROS_DISTRO" = humble ] && [ "$ROS_AUTOMATIC_DISCOVERY_RANGE" = LOCALHOST ]; then
    export ROS_LOCALHOST_ONLY="${ROS_LOCALHOST_ONLY:-1}"
fi
exec "$@"
