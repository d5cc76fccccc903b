"""A reader of each module's world; the client of Spark Connect imports in every process of the tests."""

from collections.abc import Iterator

import pytest

from ingest.store.database import Store
from ingest.store.transaction import Rows


@pytest.fixture(scope="module", autouse=True)
def importing(as_a_program: None) -> None:
    pass


@pytest.fixture
def rows(store: Store) -> Iterator[Rows]:
    with store.read() as found:
        yield found
