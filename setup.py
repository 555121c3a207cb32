"""Builds the record codecs where Cython and a C compiler are; the rest is in pyproject.toml.

Without them the package installs all the same and uses the codecs' twins in Python.
"""

from setuptools import Extension, setup

CODECS = [
    Extension(f"barnabas.wire.records.{name}", [f"src/barnabas/wire/records/{name}.pyx"])
    for name in ("_codec", "_columns")
]

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    # The C files go to build/, because any beside the sources would end up in the wheel.
    extensions = cythonize(CODECS, build_dir="build/cython")
    for extension in extensions:
        # Set afterwards: cythonize() makes extensions of its own and drops this word.
        extension.optional = True

setup(ext_modules=extensions)
