"""The client of Spark Connect imports in every process of the tests."""

import pytest


@pytest.fixture(autouse=True)
def importing(as_a_program: None) -> None:
    pass
