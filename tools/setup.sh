#!/bin/sh
# Prepares .venv and builds the workspace; quick when nothing has changed. `. env.sh` and the Makefile call it.
#     sh tools/setup.sh [test|docs]      also what training, tests and lint need, or the documentation site
# Variables: PYTHON (python3), TORCH_INDEX (an extra package index for torch).
set -eu
cd "$(dirname "$0")/.."
root=$PWD
more=${1:-}

fail() {
    printf 'fcnet: %s\n' "$*" >&2
    exit 1
}

# Scripts begin with "#!$root/.venv/bin/python": no blanks, and on older kernels at most 127 bytes. The rest has a meaning
# in the shells, the lists of paths or the settings that tools write.
case $root in
    *[[:space:]\'\"\`\$\&\(\)\;\<\>\|\*\?\{\}\\\!#:%]* | *\[* | *\]*)
        fail "'$root' has a blank or one of '\"\`\$&();<>|*?{}[]\\!#:%: move the workspace to a folder without" ;;
esac
[ "$(printf %s "$root" | wc -c)" -le 107 ] || fail "'$root' has more than 107 bytes: move the workspace to a shorter path"

# Called before anything is written.
begin_to_write() {
    [ -w . ] || fail "$root must be set up for $kind, and you may not write there: its owner runs 'make setup'"
}

# A ROS distribution is sourced when ROS_DISTRO names it and its `ros2` is not the stand-in of this workspace.
distribution() {
    [ -n "${ROS_DISTRO:-}" ] || return 1
    program=$(command -v ros2) || return 1
    [ "$program" != "$root/.venv/bin/ros2" ]
}

# Prints what is installed, on a terminal the package that pip is at, and how long it took.
install() {
    for list in "$@"; do :; done
    echo "fcnet: installing $list"
    begin_to_write
    began=$(date +%s)
    words=.venv/fcnet-pip.txt
    { .venv/bin/python -m pip install --disable-pip-version-check --no-compile --progress-bar off \
        ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "$@" 2>&1 && echo "fcnet: done"; } | tee "$words" | {
        found=0
        while read -r word name _; do
            [ "$word" != Collecting ] || found=$((found + 1))
            case $word in
                Collecting | Downloading | Installing)
                    if [ -t 1 ]; then printf '\r\033[K  %s: %s %s' "$found" "$word" "$name"; fi ;;
            esac
        done
    }
    if [ -t 1 ]; then printf '\r\033[K'; fi
    [ "$(tail -n 1 "$words")" = "fcnet: done" ] || { cat "$words" >&2; fail "pip could not install $list, see above"; }
    rm "$words"
    echo "fcnet: installed $list in $(($(date +%s) - began)) s"
}

options_of() {
    if [ "$1" = requirements/sdk.txt ]; then echo --no-deps; fi
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "no '$python' on PATH: install Python 3.10 to 3.13, or name one with PYTHON=..."
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case $version in
    3.10 | 3.11 | 3.12 | 3.13) ;;
    *) fail "$python is Python $version: 3.10 to 3.13 are needed; name one with PYTHON=..." ;;
esac

# One setup at a time, also where a make and several shells begin at once. Python locks, for want of flock on macOS; the
# lock is this shell's and ends with it.
exec 9<.
"$python" - <<'END'
import fcntl, sys
try:
    try:
        fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("fcnet: waiting for another setup of this folder to end", file=sys.stderr)
        fcntl.flock(9, fcntl.LOCK_EX)
except OSError as error:
    print(f"fcnet: this file system has no locks ({error.strerror}): do not run two setups at once", file=sys.stderr)
END

if distribution; then
    mode="ROS 2 $ROS_DISTRO"
    requirements=requirements/distribution.txt
    venv_options=--system-site-packages
else
    mode="ROS 2 from wheels"
    requirements=requirements/run.txt
    venv_options=
    unset PYTHONPATH PYTHONHOME # of another ROS or Python
    machine="$(uname -s) $(uname -m)"
    [ "$version" != 3.10 ] ||
        fail "MuJoCo and the ROS 2 wheels together need Python 3.11 to 3.13, $python is 3.10: name one with PYTHON=..."
    [ "$machine" = "Linux x86_64" ] ||
        fail "ROS 2 wheels exist for Linux on x86-64 and this is $machine: source a ROS 2 distribution, then try again"
fi
case $more in
    "") ;;
    test) requirements="$requirements requirements/train.txt requirements/test.txt requirements/ray.txt requirements/sharing.txt requirements/sdk.txt" ;;
    docs) requirements="$requirements requirements/docs.txt" ;;
    *) fail "sh tools/setup.sh knows test and docs, not '$more'" ;;
esac

# 1. Python libraries, again whenever the lists, the Python version, the kind of ROS or this folder's place change.
kind="$mode, Python $version, $root"
if [ "$(cat .venv/fcnet-kind 2>/dev/null)" != "$kind" ]; then
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "Python $version has no venv module: install it (Debian, Ubuntu: apt install python3-venv)"
    begin_to_write
    rm -rf .venv build install
    echo "fcnet: creating .venv for $kind"
    "$python" -m venv $venv_options .venv
    echo "$kind" >.venv/fcnet-kind
fi
.venv/bin/python -c "" 2>/dev/null ||
    fail "the Python of .venv does not start; if $root is not ASCII, export LC_ALL=C.UTF-8, otherwise run make clean"
for list in $requirements; do
    stamp=.venv/fcnet-$(basename "$list")
    if ! cat requirements/*.txt | cmp -s - "$stamp"; then
        install $(options_of "$list") -r "$list"
        cat requirements/*.txt >"$stamp"
    fi
done
if ! distribution && ! cmp -s tools/ros2_standin/pyproject.toml .venv/fcnet-ros2_standin; then
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation \
        --editable tools/ros2_standin
    cp tools/ros2_standin/pyproject.toml .venv/fcnet-ros2_standin
fi

# 2. The packages, again whenever what is installed by name changes; Python and YAML files are linked, not copied.
built=$(cat src/*/package.xml src/*/setup.cfg && ls launch)
if [ "$built" != "$(cat install/fcnet-built 2>/dev/null)" ]; then
    begin_to_write
    echo "fcnet: building the $(ls -d src/*/ | wc -l | tr -d ' ') packages"
    began=$(date +%s)
    for package in install/*/; do # of packages that are no longer in src/: their entry points would fail
        name=$(basename "$package")
        [ -d "src/$name" ] || rm -rf "install/$name" "build/$name"
    done
    distribution || export AMENT_PREFIX_PATH="$root/.venv"
    # colcon writes the Python that runs it into the nodes: the one that has the libraries.
    PATH="$root/.venv/bin:$PATH"
    .venv/bin/python "$(command -v colcon)" --log-level error build --symlink-install --event-handlers \
        console_start_end- console_cohesion+ >log-build.txt 2>&1 ||
        { cat log-build.txt >&2; fail "colcon build failed: its last words are above"; }
    rm log-build.txt
    echo "fcnet: built in $(($(date +%s) - began)) s"
    echo "$built" >install/fcnet-built
fi

# 3. What the tests need beside Python: without it, those of the monitor's page and of pictures are skipped.
if [ "$more" = test ] && ! { command -v chromium && command -v chromedriver; } >/dev/null; then
    echo "fcnet: the tests of the monitor's page need a browser (Debian: apt install chromium chromium-driver)"
fi
if [ "$more" = test ] && ! .venv/bin/python -c 'import ctypes; ctypes.CDLL("libEGL.so.1")' 2>/dev/null; then
    echo "fcnet: the tests of fcnet render need OpenGL (Debian: apt install libegl1 libgl1)"
fi
