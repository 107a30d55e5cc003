"""`record:=true`: `ros2 bag record` of all topics that are needed to evaluate and to repeat the run."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from launch import Action
from launch.actions import ExecuteProcess, LogInfo

from fcnet_controller.descriptions.arguments import PATIENCE, SuiteLaunch, go_on_without, missing_packages
from fcnet_controller.parameters import ControllerParameters, policy_path
from fcnet_core.files import read_settings
from fcnet_core.model_file import load_model
from fcnet_core.names import CONTROLLER, full_name
from fcnet_core.remote import load_remote_map
from fcnet_replay.recording_notes import PREFIX, RecordingNotes
from fcnet_ros.launched import launched
from fcnet_ros.parameters import default_parameters
from fcnet_ros.topics import TOPICS

FILE_DURATION = 600  # [s] of one file of a bag
WITHOUT_CUSTOM_DATA = ("humble",)  # distributions whose `ros2 bag record` has no --custom-data and no keyboard controls
RECORDING_PACKAGES = ("ros2bag", "rosbag2_storage_mcap")  # not in a distribution's ros-core; the stand-in has both


def recording(robot: str, launch: SuiteLaunch, controller: dict[str, Any]) -> list[Action]:
    """Return the actions that record a launch; controller: the controller's parameters.

    Raises FcnetError if `ros2 bag` is missing or the policy cannot be read.
    """
    if find_spec("ros2cli") and (missing := missing_packages(*RECORDING_PACKAGES)):
        launch.refuse("record", f"runs `ros2 bag record`, which is not installed; sudo apt install {missing}")
    folder = launch["bag"] or f"fcnet_{robot}_{datetime.now():%Y%m%d_%H%M%S}"
    command = [sys.executable, "-m", "fcnet_ros.launched", "ros2", "bag", "record"]
    command += recorded_topics(launch["namespace"])
    command += ["--storage", "mcap", "--output", folder, "--max-bag-duration", str(FILE_DURATION)]
    if launch["bag_compression"] != "none":
        command += ["--storage-preset-profile", launch["bag_compression"]]
    started = f"recording to {folder}"
    if os.environ.get("ROS_DISTRO") in WITHOUT_CUSTOM_DATA:
        started += "; this ROS distribution cannot note the policy and its parameters in it"
    else:
        notes = recording_notes(robot, launch, controller)
        command += ["--disable-keyboard-controls", "--custom-data", *(f"{name}={text}" for name, text in notes.items())]
    process = ExecuteProcess(
        cmd=command,
        name="recorder",
        additional_env=launched() | {"ROS_SECURITY_ENCLAVE_OVERRIDE": "/fcnet/recorder"},  # docs/security.md
        output="screen",
        sigterm_timeout=PATIENCE,
        on_exit=go_on_without("the recording", "the robot keeps running"),
    )
    return [LogInfo(msg=started), process]


def recorded_topics(namespace: str) -> list[str]:
    """Return the absolute names of the recorded topics."""
    names = [topic.name for topic in TOPICS if topic.recorded]
    names += [topic for source in load_remote_map().sources for topic in (source.velocity, source.pose)]
    return [full_name(name, namespace) for name in dict.fromkeys(names)]


def recording_notes(robot: str, launch: SuiteLaunch, controller: dict[str, Any]) -> dict[str, str]:
    """Return the bag's custom data. Raises FcnetError."""
    namespace, file = launch["namespace"].strip("/"), launch["params_file"]
    parameters = default_parameters(ControllerParameters) | controller
    if file:
        parameters |= controller_section(read_settings(file, dict, "parameter file"), namespace)
    path = policy_path(robot, str(parameters["policy"]))
    model = load_model(path)
    parameters["control_rate"] = parameters["control_rate"] or model.card.interface.rate
    notes = RecordingNotes(robot, str(path.absolute()), model.fingerprint, git_revision(), namespace, parameters)
    given = {name: text for name, text in launch.texts.items() if text}
    return notes.custom_data() | {f"{PREFIX}launch": json.dumps(given)}


def controller_section(content: Any, namespace: str, parts: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the parameters that a controller in this namespace gets from a file for several nodes; later ones win.

    Keys are names of nodes or namespaces, in which `*` is one part of a name and `**` any number of parts. parts: of
    the name that leads to `content`.
    """
    found: dict[str, Any] = {}
    for key, value in content.items() if isinstance(content, dict) else ():
        if key != "ros__parameters":
            found |= controller_section(value, namespace, (*parts, *filter(None, str(key).split("/"))))
        elif isinstance(value, dict):
            patterns = {"**": "(/[^/]+)*", "*": "/[^/]+"}
            name = "".join(patterns.get(part, re.escape(f"/{part}")) for part in parts)
            found |= value if re.fullmatch(name, full_name(CONTROLLER, namespace)) else {}
    return found


def git_revision() -> str:
    """Return the commit of this suite, with "-dirty" after changes; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    options: dict[str, Any] = {"cwd": Path(__file__).resolve().parent, "capture_output": True, "text": True}
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, timeout=10.0, check=True, **options).stdout.strip()
    return ""
