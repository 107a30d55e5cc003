"""Builds quadruped_sim, a library; its verbs join the `fcnet` program."""

from setuptools import find_packages, setup

NAME = "quadruped_sim"

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
        "fcnet.comparisons": ["closed_loop = quadruped_sim.evaluation.comparison:shortcomings"],
        "fcnet.verbs": [
            "collect = quadruped_sim.verbs.collect",
            "evaluate = quadruped_sim.verbs.evaluate",
            "recovery = quadruped_sim.verbs.recovery",
            "relabel = quadruped_sim.verbs.relabel",
            "render = quadruped_sim.verbs.render",
            "standing = quadruped_sim.verbs.standing",
            "teach = quadruped_sim.verbs.teach",
        ],
    },
)
