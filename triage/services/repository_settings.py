"""Save a maintainer's settings of a repository: here, in the log of changes, and in a message to the worker."""

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

# A maintainer decides what is merged in the repository, so they may also set how much is shown to them; requiring a
# site admin would only slow them down. Every change is logged with its previous value.
MAY_CHANGE = Role.MAINTAINER
HISTORY = 50  # changes shown


class ChangedMeanwhile(Exception):
    """Somebody saved other settings since these were displayed; nothing was saved."""


def newest(repository: WatchedRepository) -> RepositorySettings:
    """Return the last saved settings, even if the worker does not have them yet."""
    choice = RepositoryChoice.objects.filter(repo_key=repository.key).first()
    if choice is None or choice.version <= repository.settings.version:
        return repository.settings
    return parse_settings(choice.settings)


def save(
    person: Person, repository: WatchedRepository, new_settings: RepositorySettings, seen_version: int, now: datetime
) -> bool:
    """Save, log and send the settings to the worker; False where nothing differs.

    `seen_version` is the displayed version.
    Raises SettingsProblem for unusable settings and ChangedMeanwhile where `seen_version` is not the newest.
    """
    check_settings(new_settings)
    try:
        with transaction.atomic():
            current = newest(repository)
            if current.version != seen_version:
                raise ChangedMeanwhile
            new_settings = replace(new_settings, version=seen_version + 1)
            changes = changes_between(current, new_settings)
            if changes:
                _write_choice(person, repository.key, new_settings, now)
                log_change(person, "settings.changed", now, repository.key, changes=changes)
                put(
                    "settings.changed",
                    _message_key(repository.key, new_settings.version),
                    _message(repository.key, new_settings, now),
                    now,
                )
    except IntegrityError as problem:  # two first rows at the same moment
        raise ChangedMeanwhile from problem
    return bool(changes)


def _write_choice(person: Person, repo_key: str, new_settings: RepositorySettings, now: datetime) -> None:
    """Write the row; of two saves from the same version only one finds it."""
    columns: dict[str, Any] = {"version": new_settings.version, "settings": new_settings.as_json(), "changed_at": now}
    rows = RepositoryChoice.objects.filter(repo_key=repo_key)
    if not rows.exists():
        rows.create(repo_key=repo_key, changed_by=person, **columns)
    elif not rows.filter(version__lt=new_settings.version).update(changed_by=person, **columns):
        raise ChangedMeanwhile


def _message_key(repo_key: str, version: int) -> str:
    return f"settings.changed:{blake2b(repo_key.encode(), digest_size=16).hexdigest()}:{version}"


def _message(repo_key: str, new_settings: RepositorySettings, now: datetime) -> Mapping[str, Any]:
    changed_at = now.astimezone(UTC).replace(tzinfo=None).isoformat()
    return {"repo_key": repo_key, "changed_at": changed_at, "settings": new_settings.as_json()}


def history(repo_key: str) -> list[tuple[Change, Mapping[str, Any]]]:
    """Return the changes of this repository's settings, newest first, each with its differences."""
    log_entries = Change.objects.filter(repo_key=repo_key, what="settings.changed").select_related("person")
    return [(change, change.details.get("changes", {})) for change in log_entries.order_by("-made_at", "-pk")[:HISTORY]]
