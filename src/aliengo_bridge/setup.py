from setuptools import setup

setup()  # the package is described in setup.cfg
