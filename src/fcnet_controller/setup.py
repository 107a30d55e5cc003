"""Builds fcnet_controller: the controller, the replay of bags and the suite's launch files."""

from pathlib import Path

from setuptools import find_packages, setup

NAME = "fcnet_controller"

setup(
    name=NAME,
    version="0.2.0",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", sorted(str(path) for path in Path("launch").glob("[!._]*") if path.is_file())),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "controller = fcnet_controller:run_controller",
            "replay = fcnet_controller:run_replay",
        ],
        "fcnet.parameters": [
            "controller = fcnet_controller.parameters:ControllerParameters",
            "replay = fcnet_controller.parameters:ReplayParameters",
        ],
    },
)
