"""Writes the log of changes, and asks SQLite whether there is anything at all.

The question is asked in SQL's own words. Mostly nobody acts, looks, objects or closes a lane at the moment in which a
page is asked for. The ORM takes .6 ms of CPU to word a query whose answer is nothing, which SQLite finds in .02 ms.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import connection

from triage.models.accounts import Change, Person


def log_change(
    person: Person | None, what: str, now: datetime, repo_key: str = "", subject: str = "", **details: Any
) -> Change:
    """Note in the caller's transaction who changed what; `details` must be JSON."""
    told: Mapping[str, Any] = details
    return Change.objects.create(
        made_at=now, person=person, what=what, repo_key=repo_key, subject=subject, details=dict(told)
    )


def is_any(query: str, *values: object) -> bool:
    """Return whether a query finds a row.

    Each `%s` in it is one of the values, which are datetimes or what SQLite takes.
    """
    with connection.cursor() as cursor:
        return cursor.execute(query, [connection.ops.adapt_unknown_value(one) for one in values]).fetchone() is not None


def among(values: Iterable[str]) -> str:
    """Many values as one, for `in (select value from json_each(%s))`: a query has its length whatever their number."""
    return json.dumps(list(values))
