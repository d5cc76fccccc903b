"""The API's description: on a page for people, in a kept document that no change alters unseen."""

import json
import os
from typing import Any

import pytest
from django.test import Client

from tests.sources import PROJECT
from triage.api import api
from triage.views.about import operations, shapes

KEPT = PROJECT / "docs" / "openapi.json"
pytestmark = pytest.mark.django_db


def document() -> dict[str, Any]:
    return json.loads(json.dumps(api.get_openapi_schema(path_prefix="/")))


def test_the_description_is_the_kept_one() -> None:
    if os.environ.get("KEEP_OPENAPI"):
        KEPT.write_text(json.dumps(document(), indent=1, sort_keys=True) + "\n")
    assert json.loads(KEPT.read_text()) == document(), (
        "The API changed. If that is meant: KEEP_OPENAPI=1 make test ARGS=tests/triage/api/test_reference.py, "
        "read what differs in docs/openapi.json, and say in CHANGELOG.md what callers have to do."
    )


def test_everything_in_the_description_is_said_in_words() -> None:
    told = document()
    bare = [
        f"{one.method} {one.path} {field.name}" for one in operations(told) for field in one.fields if not field.meaning
    ]
    for shape in shapes(told):
        bare += [f"{shape.name}.{field.name}" for field in shape.fields if not field.meaning and not field.shape]
    assert bare == []
    assert [one.path for one in operations(told) if not one.summary or not one.meaning] == []


def texts_of(told: Any) -> list[str]:
    """Every summary and description in a part of the document."""
    if isinstance(told, list):
        return [text for one in told for text in texts_of(one)]
    if not isinstance(told, dict):
        return []
    own = [told[name] for name in ("summary", "description") if isinstance(told.get(name), str)]
    return own + [text for one in told.values() for text in texts_of(one)]


def test_no_description_begins_with_a_question_word() -> None:
    texts = texts_of(document())
    assert len(texts) > 150
    assert [text for text in texts if text.split()[0] in ("What", "Whether", "Which", "Who", "Whose", "Where")] == []


def test_every_number_has_a_range_or_says_that_it_has_none() -> None:
    open_ended = [
        f"{shape.name}.{field.name}"
        for shape in shapes(document())
        for field in shape.fields
        if field.kind.split(" or ")[0] in ("integer", "number")
    ]
    assert open_ended == [], "give it ge and le, or ge alone"


def test_the_page_shows_every_operation_and_every_object(client: Client) -> None:
    page = client.get("/api").content.decode()
    told = document()
    for one in operations(told):
        assert f'id="{one.anchor}"' in page
    for shape in shapes(told):
        assert f'id="{shape.name}"' in page
    for anchor in {answer.shape for one in operations(told) for answer in one.answers if answer.shape}:
        assert f'id="{anchor}"' in page


def test_nothing_on_the_page_comes_from_elsewhere(client: Client) -> None:
    page = client.get("/api").content.decode()
    assert "//cdn" not in page
    assert "http://" not in page.replace("http://testserver", "")
    assert "https://" not in page.replace("https://tangled.org/tangled.sh/core/pulls/12", "")
