"""Writing the log of changes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from triage.models.accounts import Person
from triage.models.changes import Change


def log_change(
    person: Person | None, what: str, now: datetime, repo_key: str = "", subject: str = "", **details: Any
) -> Change:
    """Note in the caller's transaction who changed what; `details` must be JSON."""
    told: Mapping[str, Any] = details
    return Change.objects.create(
        made_at=now, person=person, what=what, repo_key=repo_key, subject=subject, details=dict(told)
    )
