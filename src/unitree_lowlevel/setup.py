"""Builds unitree_lowlevel."""

from setuptools import find_packages, setup

NAME = "unitree_lowlevel"

setup(
    name=NAME,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="The fcnet developers",
    maintainer_email="fcnet@example.org",
    description="Unitree's low-level protocol, safety in front of its motors, and a fake motor board; no ROS.",
    license="Apache-2.0",
)
