"""Builds fcnet_teleop."""

from setuptools import find_packages, setup

NAME = "fcnet_teleop"

setup(
    name=NAME,
    version="0.2.0",
    packages=find_packages(exclude=["test"]),
    package_data={NAME: ["monitor/page/*"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "teleop_keyboard = fcnet_teleop:run_teleop_keyboard",
            "teleop_joy = fcnet_teleop:run_teleop_joy",
            "demo_course = fcnet_teleop:run_demo_course",
            "monitor = fcnet_teleop:run_monitor",
        ],
        "fcnet.parameters": [
            "monitor = fcnet_teleop.parameters:MonitorParameters",
        ],
    },
)
