"""Builds sim_bridge: the node that stands where a robot would."""

from setuptools import find_packages, setup

NAME = "sim_bridge"

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
        "console_scripts": [
            "mujoco_bridge = sim_bridge:run_mujoco_bridge",
            "isaac_playback = sim_bridge:run_isaac_playback",
            "mujoco_board = sim_bridge:run_mujoco_board",
        ],
        "fcnet.parameters": [
            "mujoco_bridge = sim_bridge.parameters:BridgeParameters",
            "mujoco_board = sim_bridge.parameters:BoardParameters",
            "isaac_playback = sim_bridge.parameters:PlaybackParameters",
        ],
    },
)
