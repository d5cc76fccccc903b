"""Names of people on pages: the handle confirmed by the network, else that of their account, else the DID.

Somebody who acts here may have no record on the network, so the network may not confirm the handle of their account.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from triage.models import Person

Shown = TypeVar("Shown", bound=Any)  # a dataclass of `scoring.queries.read` that names a person


def named(items: Sequence[Shown], field: str) -> tuple[Shown, ...]:
    """Return these objects with the displayed name of the person in that field."""
    people = [person for item in items if (person := getattr(item, field)) is not None]
    handles = _handles(person.did for person in people if _is_unknown(person))
    people_by_did = {did: read.Person(did, handle) for did, handle in handles.items()}
    return tuple(
        replace(item, **{field: people_by_did.get(person.did, person)})
        if (person := getattr(item, field)) is not None
        else item
        for item in items
    )


def names(snapshot: Snapshot | None, dids: Iterable[str]) -> dict[str, str]:
    """Return the names of these DIDs; omit DIDs without a known name."""
    dids_without_blanks = {did for did in dids if did}
    people = read.persons(snapshot, dids_without_blanks) if snapshot and dids_without_blanks else {}
    confirmed = {did: person.name for did, person in people.items() if not _is_unknown(person)}
    return confirmed | _handles(dids_without_blanks - confirmed.keys())


def _is_unknown(person: read.Person) -> bool:
    """Return whether the network confirms no handle, so that the name is the shortened DID."""
    return person.name.startswith("did:")


def _handles(dids: Iterable[str]) -> dict[str, str]:
    did_set = set(dids)
    if not did_set:
        return {}
    return dict(Person.objects.filter(did__in=did_set).exclude(handle="").values_list("did", "handle"))
