"""Builds fcnet_core, under colcon with its program `fcnet` on PATH, or as a wheel: see docs/python.md.

Versions are those that requirements/ pins, open to later compatible ones. Robots, settings and models are links to the
folders at the root of the repository, and become files of the package.
"""

from setuptools import find_packages, setup

NAME = "fcnet_core"
VERSION = "0.2.0"

setup(
    name=NAME,
    version=VERSION,
    packages=find_packages(exclude=["test"]),
    package_data={
        NAME: ["document/*.css", "document/*.js", "config/**/*.yaml", "models/*.safetensors", "models/*.md"],
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    python_requires=">=3.10",
    install_requires=[
        "msgspec~=0.22",
        "numba~=0.68",
        "numpy>=1.26,<3",
        "pyyaml~=6.0",
        "safetensors~=0.8",
        "shtab~=1.13",
        "tqdm~=4.70",
        "youplot~=1.0",
    ],
    extras_require={
        "train": [
            "onnx~=1.23",
            "onnxruntime~=1.23",
            "scipy~=1.15",
            "stable-baselines3~=2.9",
            "tensorboard~=2.21",
            "torch~=2.13",
        ],
        "sharing": [f"fcnet_replay=={VERSION}", "huggingface_hub~=2.4", "pyarrow>=25,<27"],
        "sim": [f"quadruped_sim=={VERSION}", "gymnasium~=1.4"],
    },
    zip_safe=False,
    maintainer="The fcnet developers",
    maintainer_email="fcnet@example.org",
    description="The Fourier Controller Network: network, training, runtimes, model files and datasets.",
    license="Apache-2.0",
    entry_points={
        "console_scripts": ["fcnet = fcnet_core.cli:main"],
        "fcnet.lists": [
            "models = fcnet_core.verbs.list:models",
            "policies = fcnet_core.verbs.list:policies",
            "robots = fcnet_core.verbs.list:robots",
        ],
        "fcnet.verbs": [
            "bench = fcnet_core.verbs.bench",
            "completion = fcnet_core.verbs.completion",
            "train = fcnet_core.verbs.train",
            "compare = fcnet_core.verbs.compare",
            "export = fcnet_core.verbs.export",
            "info = fcnet_core.verbs.info",
            "list = fcnet_core.verbs.list",
            "urdf = fcnet_core.verbs.urdf",
        ],
    },
)
