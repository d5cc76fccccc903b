"""docs/licences.md is the list of our pins, and nothing in it may not stand there."""

import pytest

from scoring.review.pins import read_pins
from tests.docs.pages import rows_below, text_of
from tests.licences import ALLOWED, NAMES, LicenceProblem, page, parts_of, settled


def rows() -> list[list[str]]:
    return rows_below("docs/licences.md", "Licences")


def test_the_list_has_exactly_the_pins_in_their_versions() -> None:
    pins = [[one.name, one.version] for one in read_pins(text_of("requirements/base.txt"))]
    assert [row[:2] for row in rows()] == pins, "run `make licences`"


def test_every_licence_on_the_list_is_allowed_for_a_reason() -> None:
    assert all(ALLOWED.values())
    assert set(NAMES.values()) <= set(ALLOWED)
    named = {part for *_, licence in rows() for part in parts_of(licence)}
    assert named <= set(ALLOWED)


def test_the_list_is_what_make_licences_writes() -> None:
    assert page((name, version, licence) for name, version, licence in rows()) == text_of("docs/licences.md")


@pytest.mark.parametrize(
    "licence", ["GPL-3.0-only", "MIT AND AGPL-3.0-or-later", "UNKNOWN", "MIT License; SSPL-1.0", ""]
)
def test_a_licence_that_is_not_allowed_stops_the_list(licence: str) -> None:
    with pytest.raises(LicenceProblem, match=r"left-pad is under '.*', which tests/licences.py does not allow"):
        settled("left-pad", licence)


def test_older_names_are_told_as_those_of_spdx() -> None:
    assert settled("sniffio", "Apache Software License; MIT License") == "Apache-2.0 AND MIT"


def test_our_own_licence_is_the_one_that_is_named() -> None:
    assert text_of("LICENSE").startswith("MIT License\n\nCopyright (c) 2026 The Sunstead authors\n")
