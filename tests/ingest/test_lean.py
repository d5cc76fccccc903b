"""The worker does without pandas, and a part of it that asks for pandas gets it."""

import subprocess
import sys

from tests.sources import PROJECT

LISTS_AND_PANDAS = """
import sys
import pyarrow as pa
from ingest.stream.socket_process import leave_pandas_out
leave_pandas_out()
pa.Table.from_pylist([{"did": "did:plc:ana", "weight": 1.0}])
assert "pandas" not in sys.modules
import pandas
assert pandas.Series([1, 2]).sum() == 3
"""


def test_lists_load_no_pandas_and_who_imports_it_gets_it() -> None:
    done = subprocess.run([sys.executable, "-c", LISTS_AND_PANDAS], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
