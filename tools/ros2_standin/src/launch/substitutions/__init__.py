"""Texts that are known only while launching."""

from ..substitution import SubstitutionFailure
from ..unknown_name import refuse_unknown_names
from .environment_variable import EnvironmentVariable
from .launch_configuration import LaunchConfiguration
from .path_join_substitution import PathJoinSubstitution
from .python_expression import PythonExpression
from .text_substitution import TextSubstitution
from .this_launch_file_dir import ThisLaunchFileDir

__getattr__ = refuse_unknown_names(__name__)

__all__ = [
    "EnvironmentVariable",
    "LaunchConfiguration",
    "PathJoinSubstitution",
    "PythonExpression",
    "SubstitutionFailure",
    "TextSubstitution",
    "ThisLaunchFileDir",
]
