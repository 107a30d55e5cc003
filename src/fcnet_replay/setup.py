"""Builds fcnet_replay."""

from setuptools import find_packages, setup

NAME = "fcnet_replay"
VERSION = "0.2.0"

setup(
    name=NAME,
    version=VERSION,
    packages=find_packages(exclude=["test"]),
    package_data={NAME: ["report/*.css", "report/*.js"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    python_requires=">=3.10",
    install_requires=[
        f"fcnet_core=={VERSION}",
        "lz4~=4.4",
        "mcap~=1.6",
        "msgspec~=0.22",
        "numpy>=1.26,<3",
        "pyyaml~=6.0",
        "rosbags~=0.11",
        "zstandard~=0.25",
    ],
    zip_safe=False,
    entry_points={
        "fcnet.verbs": [
            "replay = fcnet_replay.verbs.replay",
            "dataset = fcnet_replay.verbs.dataset",
        ],
    },
)
