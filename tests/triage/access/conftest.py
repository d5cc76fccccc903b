"""A fixture of the tests of who may come in."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache


@pytest.fixture
def nothing_counted() -> Iterator[None]:
    """Throttles have counted nothing before a test, and keep nothing after it."""
    cache.clear()
    yield
    cache.clear()
