"""Builds aliengo_bridge."""

from setuptools import find_packages, setup

NAME = "aliengo_bridge"

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
            "bridge = aliengo_bridge:run_bridge",
            "fake_board = aliengo_bridge:run_fake_board",
            "doctor = aliengo_bridge:run_doctor",
        ],
    },
)
