"""Saving what maintainers set for a repository: here, in the log of changes, and in a message to the worker."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from django.db import IntegrityError, transaction

from scoring.config.repository import RepositorySettings, changes_between, check_settings, parse_settings
from scoring.queries.read import WatchedRepository
from triage.access.permissions import Role
from triage.models import Change, Person, RepositoryChoice
from triage.models.accounts import log_change
from triage.models.outbox import put

# Whoever judges for a repository decides what is merged there anyway, so they also set how much is shown to them; an
# admin of the site would only be in their way. Every change is logged with what was before.
MAY_CHANGE = Role.MAINTAINER
HISTORY = 50  # changes that are shown


class ChangedMeanwhile(Exception):
    """Somebody saved other settings since these were shown; nothing was saved."""


def newest(found: WatchedRepository) -> RepositorySettings:
    """The settings that were saved last, also before the worker has them."""
    choice = RepositoryChoice.objects.filter(repo_key=found.key).first()
    if choice is None or choice.version <= found.settings.version:
        return found.settings
    return parse_settings(choice.settings)


def save(person: Person, found: WatchedRepository, after: RepositorySettings, seen: int, now: datetime) -> bool:
    """Save, log and tell the worker; False where nothing differs. `seen` is the version that the person was shown.

    Raises SettingsProblem for settings that cannot be used and ChangedMeanwhile where `seen` is not the newest.
    """
    check_settings(after)
    try:
        with transaction.atomic():
            before = newest(found)
            if before.version != seen:
                raise ChangedMeanwhile
            after = replace(after, version=seen + 1)
            changes = changes_between(before, after)
            if changes:
                _keep(person, found.key, after, now)
                log_change(person, "settings.changed", now, found.key, changes=changes)
                put("settings.changed", _message_key(found.key, after.version), _message(found.key, after, now), now)
    except IntegrityError as problem:  # two first rows at the same moment
        raise ChangedMeanwhile from problem
    return bool(changes)


def _keep(person: Person, repo_key: str, after: RepositorySettings, now: datetime) -> None:
    """Write the row; of two that saw the same version only one finds it."""
    columns: dict[str, Any] = {"version": after.version, "settings": after.as_json(), "changed_at": now}
    rows = RepositoryChoice.objects.filter(repo_key=repo_key)
    if not rows.exists():
        rows.create(repo_key=repo_key, changed_by=person, **columns)
    elif not rows.filter(version__lt=after.version).update(changed_by=person, **columns):
        raise ChangedMeanwhile


def _message_key(repo_key: str, version: int) -> str:
    return f"settings.changed:{blake2b(repo_key.encode(), digest_size=16).hexdigest()}:{version}"


def _message(repo_key: str, after: RepositorySettings, now: datetime) -> Mapping[str, Any]:
    changed_at = now.astimezone(UTC).replace(tzinfo=None).isoformat()
    return {"repo_key": repo_key, "changed_at": changed_at, "settings": after.as_json()}


def history(repo_key: str) -> list[tuple[Change, Mapping[str, Any]]]:
    """Return what was changed in this repository's settings, newest first, each with what differed."""
    found = Change.objects.filter(repo_key=repo_key, what="settings.changed").select_related("person")
    return [(change, change.details.get("changes", {})) for change in found.order_by("-made_at", "-pk")[:HISTORY]]
