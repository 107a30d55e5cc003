"""Where launch descriptions come from."""

from ..unknown_name import refuse_unknown_names
from .python_launch_description_source import PythonLaunchDescriptionSource

__getattr__ = refuse_unknown_names(__name__)

__all__ = ["PythonLaunchDescriptionSource"]
