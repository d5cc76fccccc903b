"""The keys with which this site proves to authorization servers that it is itself, in one file of the drive.

Servers keep a client's published keys for 10 minutes, so a new one is published at once and used later. A session is
bound for life to the key that began it: a retired key begins nothing new and stays until its last session has ended.
"""

import fcntl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
from django.conf import settings
from django.db.models import Count

from ingest.files import write_whole
from ingest.json_decoding import decode_json
from ingest.oauth.proofs import ECKey, dump_key, load_key, make_key
from triage.models import OAuthRequest, OAuthSession

PUBLISHED_FOR = timedelta(minutes=11)  # servers keep what we published for 10


class KeyProblem(Exception):
    """The key file cannot be read or changed like this; the message is one sentence with the remedy."""


class StoredKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A private key as text, and when it was published and retired."""

    jwk: str
    made_at: datetime
    retired_at: datetime | None = None

    @property
    def key_id(self) -> str:
        """Return the thumbprint that names the key."""
        return str(self.load().kid)

    def load(self) -> ECKey:
        return load_key(self.jwk)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: Annotated[tuple[StoredKey, ...], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key for display: `is_used` for new sign-ins, and how many sessions and attempts are bound to it."""

    key: StoredKey
    is_used: bool
    bound: int


def read_keys() -> tuple[StoredKey, ...]:
    """Return all keys, oldest first; the first one is made when it is first needed. Raises KeyProblem."""
    path: Path = settings.OAUTH_CLIENT_KEYS
    if not path.exists():
        _change(lambda keys: keys or (_make(datetime.now(UTC)),))
    return _read(path)


def key_in_use(keys: Sequence[StoredKey], now: datetime) -> StoredKey:
    """Return the key that begins new sessions: the newest that every server knows by now, else the oldest."""
    current = sorted((key for key in keys if key.retired_at is None), key=lambda key: key.made_at)
    known = [key for key in current if now - key.made_at >= PUBLISHED_FOR]
    return known[-1] if known else current[0]


def find_key(key_id: str) -> ECKey | None:
    """Return the key with this name; None if it was removed or lost. Raises KeyProblem."""
    return next((key.load() for key in read_keys() if key.key_id == key_id), None)


def list_keys(now: datetime) -> list[ListedKey]:
    """Return every key with its use. Raises KeyProblem."""
    keys = read_keys()
    used, bound = key_in_use(keys, now), _count_bound()
    return [ListedKey(key, key == used, bound.get(key.key_id, 0)) for key in keys]


def add_key(now: datetime) -> StoredKey:
    """Publish a new key, which is used once every server knows it. Raises KeyProblem."""
    read_keys()
    made = _make(now)
    _change(lambda keys: (*keys, made))
    return made


def retire_key(key_id: str, now: datetime) -> bool:
    """Begin nothing with this key any more; return True if it was removed, as no session is bound to it.

    Raises KeyProblem if there is no such key, or no other that servers know.
    """
    keys = read_keys()
    if key_id not in [key.key_id for key in keys]:
        raise KeyProblem(f"There is no key {key_id}: `manage.py oauth_key --list` names them.")
    others = [key for key in keys if key.key_id != key_id and key.retired_at is None]
    if not any(now - key.made_at >= PUBLISHED_FOR for key in others):
        raise KeyProblem("No other key is in use yet: add one (--add), and retire this one after 11 minutes.")

    def retire(keys: tuple[StoredKey, ...]) -> tuple[StoredKey, ...]:
        return tuple(
            msgspec.structs.replace(key, retired_at=key.retired_at or now) if key.key_id == key_id else key
            for key in keys
        )

    _change(retire)
    return key_id in remove_unbound_keys()


def remove_unbound_keys() -> list[str]:
    """Remove retired keys to which no session is bound any more; return their names. Raises KeyProblem."""
    bound, removed = _count_bound(), list[str]()

    def keep(keys: tuple[StoredKey, ...]) -> tuple[StoredKey, ...]:
        removed.extend(key.key_id for key in keys if key.retired_at and not bound.get(key.key_id))
        return tuple(key for key in keys if key.key_id not in removed)

    if settings.OAUTH_CLIENT_KEYS.exists():
        _change(keep)
    return removed


def _count_bound() -> dict[str, int]:
    counts: dict[str, int] = {}
    for model in (OAuthSession, OAuthRequest):
        for key_id, count in model.objects.values_list("key_id").annotate(Count("pk")).order_by():
            counts[key_id] = counts.get(key_id, 0) + count
    return counts


def _make(now: datetime) -> StoredKey:
    return StoredKey(dump_key(make_key()), now)


def _read(path: Path) -> tuple[StoredKey, ...]:
    try:
        keys = decode_json(path.read_bytes(), _File).keys if path.exists() else ()
        for key in keys:
            key.load()
    except (OSError, msgspec.MsgspecError, ValueError):
        raise KeyProblem(
            f"{path} is damaged or cannot be read: put its backup there, or delete it; then everybody who signed in "
            "with their AT Protocol account signs in again."
        ) from None
    return tuple(sorted(keys, key=lambda key: key.made_at))


def _change(change: Callable[[tuple[StoredKey, ...]], tuple[StoredKey, ...]]) -> None:
    """Read, change and write the file, one process at a time; readers see the old keys or the new ones."""
    path: Path = settings.OAUTH_CLIENT_KEYS
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with path.with_name(f".{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = _read(path)
            after = change(before)
            if after != before:
                write_whole(path, msgspec.json.encode(_File(after)))
    except OSError as problem:
        raise KeyProblem(f"{path} cannot be written ({problem.strerror}): make its folder writable.") from problem
