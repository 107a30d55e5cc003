"""Texts that only ROS knows."""

from launch.unknown_name import refuse_unknown_names

from .find_package_share import FindPackageShare

__getattr__ = refuse_unknown_names(__name__)

__all__ = ["FindPackageShare"]
