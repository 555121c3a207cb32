"""Builds the record codec where Cython and a C compiler are; everything else is in pyproject.toml.

Without them the package installs all the same and uses the codec's twin in plain Python.
"""

from setuptools import Extension, setup

CODEC = Extension("barnabas.wire.records._codec", ["src/barnabas/wire/records/_codec.pyx"])

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    # The C file goes to build/, because one beside the source would end up in the wheel.
    extensions = cythonize([CODEC], build_dir="build/cython")
    for extension in extensions:
        # Set afterwards: cythonize() makes extensions of its own and drops this word.
        extension.optional = True

setup(ext_modules=extensions)
