"""Environment variables of ROS and Fast DDS. rcl accepts some wrong values and answers others with an abort."""

import os
import re
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from ament_index_python import get_resources

from fcnet_core.errors import ParameterError, WriteError
from fcnet_core.files import check_writable

DISCOVERY_RANGE, LOCALHOST_ONLY = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY"
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
MIDDLEWARE, DOMAIN, LOG = "RMW_IMPLEMENTATION", "ROS_DOMAIN_ID", "ROS_LOG_DIR"
FAST_DDS = "rmw_fastrtps_cpp"  # of the wheels, and the default of a distribution
LOGGING = ("RCUTILS_COLORIZED_OUTPUT", "RCUTILS_LOGGING_USE_STDOUT", "RCUTILS_LOGGING_BUFFERED_STREAM")
CHOICES = {
    DISCOVERY_RANGE: (r"SUBNET|LOCALHOST|OFF|SYSTEM_DEFAULT", "SUBNET, LOCALHOST, OFF or SYSTEM_DEFAULT"),
    LOCALHOST_ONLY: (r"[01]", "0 or 1"),
    **dict.fromkeys(LOGGING, (r"[01]", "0 or 1")),
    DOMAIN: (r"0*(\d\d?|1\d\d|2[0-2]\d|23[0-2])", "a whole number from 0 to 232"),
}


def check_environment(name: str) -> None:
    """Raise ParameterError for an unusable variable; use the temporary folder if that of logs cannot be written.

    name: of the program that reports this.
    """
    folder = Path(os.environ.get(LOG) or Path(os.environ.get("ROS_HOME") or Path.home() / ".ros") / "log")
    try:
        check_writable(folder / "file")
    except WriteError as error:
        os.environ[LOG] = tempfile.gettempdir()
        print(f"{name}: logs are in {os.environ[LOG]}, as {folder} cannot be written: {error.reason}", file=sys.stderr)
    for variable, (pattern, expected) in CHOICES.items():
        if (text := os.environ.get(variable, "")) and not re.fullmatch(pattern, text, re.ASCII):
            raise ParameterError(f"{variable} is {text!r}, expected {expected}; change it, or `unset {variable}`")
    middleware = os.environ.get(MIDDLEWARE) or FAST_DDS
    if middleware != FAST_DDS and middleware not in get_resources("rmw_typesupport"):
        raise ParameterError(f"{MIDDLEWARE} is {middleware}, which is not installed here; install it, or unset this")
    for variable in PROFILES if middleware == FAST_DDS else ():
        try:
            if path := os.environ.get(variable):
                ElementTree.parse(path)
        except (OSError, ElementTree.ParseError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ParameterError(f"{variable} is {path}, which cannot be read: {reason}; unset it") from error
