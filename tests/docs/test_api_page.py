"""docs/api.md against the code: operations, who is answered, codes of errors, scopes of tokens."""

import re

from django.conf import settings

from tests.docs.pages import rows_below, spans, text_of
from tests.sources import PROJECT
from tests.triage.access.test_permissions import KINDS, TABLE, operations
from triage.access.problems import CODES
from triage.access.tokens import SCOPES
from triage.api import scores

PAGE = "docs/api.md"
# Who holds one is let in, who does not is not: both have tests of their own.
LEFT_OUT = {"sign_in_link", "demo_sign_in", "feed", "briefing_feed"}  # whoever has the link, whoever they are
REFUSED = {"sign", "401", "403"}


def answered(answers: str) -> list[str]:
    """yes or no for each of the seven, as the page says it."""
    return ["no" if one in REFUSED else "yes" for one in answers.split()]


def test_the_page_lists_exactly_the_operations_of_the_description() -> None:
    listed = [spans(row[0])[0] for row in rows_below(PAGE, "Operations")]
    assert sorted(listed) == sorted(operations())


def test_every_parameter_that_the_page_names_exists() -> None:
    from triage.api import api

    paths = api.get_openapi_schema(path_prefix="/")["paths"]
    for row in rows_below(PAGE, "Operations"):
        method, path = spans(row[0])[0].split(" ")
        known = {one["name"] for one in paths[path][method.lower()].get("parameters", ())}
        named = {found for one in spans(row[1]) if (found := one.split("=")[0]) != one}
        assert named <= known, row[0]
        assert {one for one in known if one not in ("did", "job")} <= named, row[0]


def test_who_sees_what_is_what_everybody_is_really_answered() -> None:
    said: dict[str, list[str]] = {}
    for what, *answers in rows_below(PAGE, "Who sees what"):
        for name in spans(what):
            assert name not in said, f"{name} stands twice"
            said[name] = answers
    assert len(KINDS) == 7
    assert said == {name: answered(answers) for name, (_, answers) in TABLE.items() if name not in LEFT_OUT}


def test_the_page_lists_every_code_of_an_error_with_its_status() -> None:
    listed = {spans(code)[0]: int(status) for code, status, _ in rows_below(PAGE, "Errors")}
    for status, code in CODES.items():
        assert listed.get(code) == status
    written = "".join(path.read_text() for path in (PROJECT / "triage").rglob("*.py"))
    assert set(re.findall(r'code="([a-z_]+)"', written)) | set(CODES.values()) == set(listed)


def test_the_page_lists_the_scopes_and_says_the_real_limits() -> None:
    assert [spans(row[0])[0] for row in rows_below(PAGE, "Signing in")] == list(SCOPES)
    text = text_of(PAGE)
    assert f"{settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes" in text
    assert f"up to {scores.MOST_DIDS} DIDs" in text
