"""Nothing here knows about pywheel: Cython finds the .pxd files where Python finds the package."""

from Cython.Build import cythonize
from setuptools import setup

setup(
    name="client",
    ext_modules=cythonize(["client.pyx", "guide.pyx"], language_level=3),
    script_args=["build_ext", "--inplace"],
)
