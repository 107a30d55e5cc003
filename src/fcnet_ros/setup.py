"""Builds fcnet_ros."""

from setuptools import find_packages, setup

NAME = "fcnet_ros"

setup(
    name=NAME,
    version="0.2.0",
    packages=find_packages(exclude=["test"]),
    package_data={NAME: ["*.xml"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
)
