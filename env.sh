# Prepares the workspace when needed and opens it in this shell: `. env.sh` (sh, bash, zsh), as often as you like.
# Afterwards `ros2`, `colcon` and `fcnet` are on PATH.

if [ -n "${BASH_VERSION:-}" ]; then
    _fcnet_file=${BASH_SOURCE}
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_fcnet_file=${(%):-%x}'
else
    _fcnet_file=./env.sh
fi
_fcnet_root=$(cd "$(dirname "$_fcnet_file")" >/dev/null && pwd)
if [ ! -f "$_fcnet_root/tools/setup.sh" ]; then
    echo "fcnet: this shell does not report where env.sh is: change to the workspace's folder first" >&2
    unset _fcnet_file _fcnet_root
    return 1
fi
if ! sh "$_fcnet_root/tools/setup.sh"; then
    unset _fcnet_file _fcnet_root
    return 1
fi

. "$_fcnet_root/.venv/bin/activate"
case "$(cat "$_fcnet_root/.venv/fcnet-kind"):${AMENT_PREFIX_PATH:-}:" in
    "ROS 2 from wheels"*":$_fcnet_root/.venv:"*) ;;
    "ROS 2 from wheels"*) export AMENT_PREFIX_PATH="$_fcnet_root/.venv${AMENT_PREFIX_PATH:+:$AMENT_PREFIX_PATH}" ;;
esac
if [ -n "${BASH_VERSION:-}" ]; then
    . "$_fcnet_root/install/local_setup.bash"
elif [ -n "${ZSH_VERSION:-}" ]; then
    . "$_fcnet_root/install/local_setup.zsh"
else
    COLCON_CURRENT_PREFIX="$_fcnet_root/install"
    . "$_fcnet_root/install/local_setup.sh"
    unset COLCON_CURRENT_PREFIX
fi
# Robots and simulators of other people on the network stay out unless asked for.
export ROS_AUTOMATIC_DISCOVERY_RANGE="${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}"
if [ "${ROS_DISTRO:-}" = humble ] && [ "$ROS_AUTOMATIC_DISCOVERY_RANGE" = LOCALHOST ]; then
    export ROS_LOCALHOST_ONLY="${ROS_LOCALHOST_ONLY:-1}" # Humble's way to say the same
fi
unset _fcnet_file _fcnet_root
