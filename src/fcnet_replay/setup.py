"""Builds fcnet_replay."""

from setuptools import find_packages, setup

NAME = "fcnet_replay"

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
    entry_points={
        "fcnet.verbs": [
            "replay = fcnet_replay.verbs.replay",
            "dataset = fcnet_replay.verbs.dataset",
        ],
    },
)
