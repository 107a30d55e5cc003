"""Builds fcnet_study, a library; its verbs join the `fcnet` program."""

from setuptools import find_packages, setup

NAME = "fcnet_study"

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
        "fcnet.verbs": [
            "attention = fcnet_study.verbs.attention",
            "bench = fcnet_study.verbs.bench",
            "spectrum = fcnet_study.verbs.spectrum",
            "study = fcnet_study.verbs.study",
        ],
    },
)
