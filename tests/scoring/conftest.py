"""A store for one test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline import Result, opened


@pytest.fixture(name="result")
def result_fixture(tmp_path: Path) -> Iterator[Result]:
    """An empty store, judged with the default policy."""
    with opened(tmp_path) as result:
        yield result
