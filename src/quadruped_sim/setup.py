"""Builds quadruped_sim, a library; its verbs join the `fcnet` program."""

from setuptools import find_packages, setup

NAME = "quadruped_sim"
VERSION = "0.2.0"

setup(
    name=NAME,
    version=VERSION,
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    python_requires=">=3.10",
    install_requires=[
        f"fcnet_core=={VERSION}",
        f"fcnet_replay=={VERSION}",
        "msgspec~=0.22",
        "mujoco-core~=4.0; python_version >= '3.11'",
        "mujoco~=3.17; python_version < '3.11'",
        "numpy>=1.26,<3",
        "pillow>=12.3,<14",
        "pyopengl~=3.1",
        "tqdm~=4.70",
    ],
    zip_safe=False,
    entry_points={
        "fcnet.lists": ["terrains = quadruped_sim.physics.terrain:listed"],
        "fcnet.verbs": [
            "collect = quadruped_sim.verbs.collect",
            "evaluate = quadruped_sim.verbs.evaluate",
            "relabel = quadruped_sim.verbs.relabel",
            "render = quadruped_sim.verbs.render",
            "teach = quadruped_sim.verbs.teach",
        ],
    },
)
