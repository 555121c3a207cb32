"""Builds the record codec where Cython and a C compiler are; everything else is in pyproject.toml.

Without them the package installs all the same and uses the codec's twin in plain Python.
"""

from setuptools import Extension, setup

CODEC = Extension(
    "barnabas.wire.records._codec", ["src/barnabas/wire/records/_codec.pyx"], optional=True
)

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    extensions = cythonize([CODEC], compiler_directives={"language_level": "3"})

setup(ext_modules=extensions)
