"""Builds unitree_bridge."""

from setuptools import find_packages, setup

NAME = "unitree_bridge"

setup(
    name=NAME,
    version="0.2.0",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    entry_points={
        "fcnet.parameters": [
            "bridge = unitree_bridge.parameters:BridgeParameters",
        ],
    },
)
