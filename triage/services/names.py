"""Names of people on pages: the handle that the network confirms, else that of their account, else the DID.

Whoever acts here need not have written a record, so the network may know nothing of the handle they were added under.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from triage.models import Person

Shown = TypeVar("Shown", bound=Any)  # a dataclass of `scoring.queries.read` that names a person


def named(found: Sequence[Shown], field: str) -> tuple[Shown, ...]:
    """These with the person in that field, where there is one, under the name that they have on pages."""
    people = [person for one in found if (person := getattr(one, field)) is not None]
    handles = _handles(person.did for person in people if _is_unknown(person))
    known = {did: read.Person(did, handle) for did, handle in handles.items()}
    return tuple(
        replace(one, **{field: known.get(person.did, person)}) if (person := getattr(one, field)) is not None else one
        for one in found
    )


def names(snapshot: Snapshot | None, dids: Iterable[str]) -> dict[str, str]:
    """The names of these DIDs; one of whom nothing is known is not in the map."""
    wanted = {did for did in dids if did}
    people = read.persons(snapshot, wanted) if snapshot and wanted else {}
    told = {did: person.name for did, person in people.items() if not _is_unknown(person)}
    return told | _handles(wanted - told.keys())


def _is_unknown(person: read.Person) -> bool:
    """Return whether the network confirms no handle, so that the name is the shortened DID."""
    return person.name.startswith("did:")


def _handles(dids: Iterable[str]) -> dict[str, str]:
    wanted = set(dids)
    if not wanted:
        return {}
    return dict(Person.objects.filter(did__in=wanted).exclude(handle="").values_list("did", "handle"))
