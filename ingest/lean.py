"""Keeps a library that another one loads unasked out of a long process's memory."""

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def leave_pandas_out() -> None:
    """Have pyarrow look for pandas now and find none; whatever else imports pandas later still gets it.

    pyarrow looks once, at the first list that it is given, and loads pandas where it is installed: .4 s of CPU and
    50 MB. From then on `to_pandas` of pyarrow fails in this process, which has no use for it.
    """
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
