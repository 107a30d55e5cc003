"""Builds fcnet_core; its one program, `fcnet`, goes to bin so that a sourced workspace has it on PATH."""

from setuptools import find_packages, setup

NAME = "fcnet_core"

setup(
    name=NAME,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    package_data={NAME: ["config/**/*.yaml", "models/*.safetensors"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="The fcnet developers",
    maintainer_email="fcnet@example.org",
    description="The Fourier Controller Network: network, training, runtimes, model files and datasets.",
    license="Apache-2.0",
    entry_points={
        "console_scripts": ["fcnet = fcnet_core.cli:main"],
        "fcnet.verbs": [
            "train = fcnet_core.verbs.train",
            "export = fcnet_core.verbs.export",
            "info = fcnet_core.verbs.info",
            "urdf = fcnet_core.verbs.urdf",
        ],
    },
)
