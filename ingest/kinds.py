"""The building blocks of the registry (ingest/records.py): what one entry is, and the families of like entries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ingest import columns as c
from ingest import declarations
from ingest.columns import Column, SmallRecord
from ingest.reading import DID, Event
from ingest.shapes import PullRecord, RepositoryRecord, StatusRecord, VouchRecord

Record = RepositoryRecord | PullRecord | StatusRecord | VouchRecord | SmallRecord


@dataclass(frozen=True, slots=True)
class Kind:
    """How one collection is read.

    `table` is where its rows go; `fields` and `values` are what its records are known to carry at the top level.
    """

    table: str
    read: Callable[[Mapping[str, Any], Event], Record] = field(repr=False)
    fields: frozenset[str]
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)


def known(*names: str) -> frozenset[str]:
    """These field names, and those that every record may carry."""
    return frozenset({"$type", "createdAt", *(word for name in names for word in name.split())})


def one_of(**values: str) -> Mapping[str, frozenset[str]]:
    """The words that these fields may hold."""
    return {name: frozenset(told.split()) for name, told in values.items()}


def small(
    table: str,
    fields: str,
    values: Mapping[str, frozenset[str]] = MappingProxyType({}),
    dated: tuple[str, ...] = ("createdAt",),
    **columns: Column,
) -> Kind:
    """A kind whose rows are its columns, with author, CID and times beside them."""
    return Kind(table, c.reader(dated, columns), known(fields, *dated), values)


NOTHING = c.always(None)


def comment(form: str, fields: str, subject: Column, revision: Column = NOTHING, number: Column = NOTHING) -> Kind:
    """The three comment records; the older two have no revision and no round."""
    return small(
        "comments",
        f"body replyTo mentions references {fields}",
        form=c.always(form),
        subject_uri=c.needed(subject, "a comment on nothing that can be read"),
        subject_cid=revision,
        body=c.markdown,
        reply_to=c.uri("replyTo"),
        round=number,
    )


def collaborator(form: str, fields: str, subject: Column) -> Kind:
    """A collaborator record, an invite or an acceptance; where it does not name the repository, nothing is guessed."""
    return small(
        "collaborators",
        f"repo {fields}",
        form=c.always(form),
        repository=c.named_repository("repo", "repoDid"),
        subject=c.needed(subject, "a collaboration with nobody that can be read"),
    )


def server(kind: str) -> Kind:
    """A claim to run a knot or spindle, whose host is the record key."""
    host = c.needed(c.key_matching(c.HOST), "a server whose record key is not a host name")
    return small("servers", "", kind=c.always(kind), host=host)


def member(kind: str, place: str) -> Kind:
    """A member of a knot or spindle; some records name them in the key only (facts/tangled.md §1.1)."""
    somebody = c.first(c.did("subject"), c.key_matching(DID))
    return small(
        "server_members",
        f"subject {place}",
        kind=c.always(kind),
        host=c.matching(place, c.HOST),
        subject=c.needed(somebody, "a membership of nobody that can be read"),
    )


def declaration(name: str) -> Kind:
    """One of our own records, as its lexicon describes it."""
    read, fields = declarations.read_declaration(name), declarations.properties(name)
    return Kind("declarations", read, known(*fields), declarations.known_values(name))
