"""The one registry of record types: from NSID to the table of its rows and the reader that makes them.

To add a record type add one entry here. Records are hostile: an unreadable one raises Unreadable with the reason, and
the caller stores it as a dead letter; fields and values that an entry does not name are counted
(ingest/records/dead_letters.py).

Sunstead's own records are read by their lexicon documents (ingest/records/lexicons), under the operator's authority.
Such a record proves only that its author wrote it. `subject` is the account or record that it is about, empty for its
author: a declaration about somebody else is stored and counts for nothing, which the reader of the table must respect.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ingest.atproto.syntax import NAMESPACE
from ingest.records import assessment
from ingest.records import fields as c
from ingest.records.assessment import Assessment, read_assessment
from ingest.records.fields import (
    AT_URI,
    CID,
    DID,
    Column,
    Event,
    SmallRecord,
    Unreadable,
    decode,
    did_or_uri,
    identifier,
    items,
    json_text,
    moment,
    text,
)
from ingest.records.shapes import (
    PullRecord,
    RepositoryRecord,
    StatusRecord,
    VouchRecord,
    read_pull,
    read_repository,
    read_status,
    read_vouch,
)

FOLDER = Path(__file__).with_name("lexicons")
PLACEHOLDER = "org.sunstead"  # the authority in the documents
KINDS: Mapping[str, str] = {
    "jurisdiction": "jurisdiction",
    "jurisdictionAttestation": "jurisdiction_attestation",
    "jurisdictionStatement": "jurisdiction_statement",
    "objection": "objection",
    "leaderboardOptOut": "leaderboard_opt_out",
    "approval": "approval",
}
CODES: Mapping[str, re.Pattern[str]] = {
    "country": re.compile(r"[A-Z]{2}"),
    "region": re.compile(r"[A-Z]{2}-[A-Z0-9]{1,3}"),
}
STRONG_REFERENCE = "com.atproto.repo.strongRef"
Property = Mapping[str, Any]


@cache
def document(name: str, authority: str) -> Mapping[str, Any]:
    """Return a document under this authority, which also stands in the permission sets."""
    return json.loads((FOLDER / f"{name}.json").read_text().replace(f'"{PLACEHOLDER}.', f'"{authority}.'))


def documents(authority: str) -> Mapping[str, Mapping[str, Any]]:
    """Return every document under this authority, by its NSID."""
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    return {f"{authority}.{name}": document(name, authority) for name in names}


def schema_host(authority: str) -> str:
    """Return the name whose TXT record `did=…` leads to the schemas of an authority (atproto.com/specs/lexicon)."""
    return f"_lexicon.{'.'.join(reversed(authority.split('.')))}"


def properties(name: str) -> Mapping[str, Property]:
    return document(name, PLACEHOLDER)["defs"]["main"]["record"]["properties"]


def known_values(name: str) -> Mapping[str, frozenset[str]]:
    """Return the words that a field may hold, for the fields that name them."""
    words_by_field = {
        field: definition["knownValues"]
        for field, definition in properties(name).items()
        if "knownValues" in definition
    }
    return {field: frozenset(words) for field, words in words_by_field.items()}


def read_declaration(name: str) -> Callable[[Mapping[str, Any], Event], SmallRecord]:
    """Return a reader of records of this name, which raises Unreadable if a required field is missing."""
    main = document(name, PLACEHOLDER)["defs"]["main"]
    required = tuple(field for field in main["record"]["required"] if field != "createdAt")
    return partial(_read_own, name, main["key"].removeprefix("literal:"), required)


def _read_own(name: str, key: str, required: tuple[str, ...], record: Mapping[str, Any], event: Event) -> SmallRecord:
    kind = KINDS[name]
    if key == "self" and event.rkey != key:
        raise Unreadable(f"a record of kind {kind} under another key than {key}")
    values = {
        field: _read_value(field, definition, record)
        for field, definition in properties(name).items()
        if field != "createdAt"
    }
    if missing := [field for field in required if values[field] in (None, "")]:
        raise Unreadable(f"a record of kind {kind} without a readable {missing[0]}")
    subject = values.pop("subject", None)
    value = json_text({field: value for field, value in values.items() if value is not None})
    subject_uri = subject["uri"] if isinstance(subject, dict) else subject
    if isinstance(subject, dict):
        value = json_text({"subject_cid": subject["cid"]} | json.loads(value))
    return SmallRecord({"kind": kind, "subject": subject_uri, "value": value}, moment(record, "createdAt"))


def _read_value(field: str, definition: Property, record: Mapping[str, Any]) -> Any:
    """Return the usable part of one field, as far as its lexicon allows, else None."""
    value = record.get(field)
    if definition["type"] == "string":
        return _read_text(field, definition, record)
    if definition["type"] == "integer":
        fits = type(value) is int and definition["minimum"] <= value <= definition["maximum"]
        return value if fits else None
    if definition["type"] == "boolean":
        return value is True
    if definition["type"] == "array" and definition["items"]["type"] == "string":
        longest = definition["items"]["maxLength"]
        return [item[:longest] for item in items(record, field)[: definition["maxLength"]] if isinstance(item, str)]
    if definition.get("ref") == STRONG_REFERENCE and isinstance(value, dict):
        uri = identifier(AT_URI, value.get("uri"))
        return {"uri": uri, "cid": text(value, "cid", 128)} if uri else None
    return None


def _read_text(field: str, definition: Property, record: Mapping[str, Any]) -> str | None:
    if definition.get("format") == "at-uri":
        return did_or_uri(record.get(field))
    if definition.get("format") == "did":
        return identifier(DID, record.get(field))
    if field in CODES:
        return identifier(CODES[field], record.get(field))
    return text(record, field, definition["maxLength"])


Record = RepositoryRecord | PullRecord | StatusRecord | VouchRecord | Assessment | SmallRecord


@dataclass(frozen=True, slots=True)
class Kind:
    """How to read one collection.

    `table` gets its rows; `fields` and `values` are the known content of its records at the top level.
    """

    table: str
    read: Callable[[Mapping[str, Any], Event], Record] = field(repr=False)
    fields: frozenset[str]
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)


def known(*names: str) -> frozenset[str]:
    """Return these field names, and those that every record may carry."""
    return frozenset({"$type", "createdAt", *(word for name in names for word in name.split())})


def one_of(**values: str) -> Mapping[str, frozenset[str]]:
    return {name: frozenset(allowed.split()) for name, allowed in values.items()}


def small(
    table: str,
    fields: str,
    values: Mapping[str, frozenset[str]] = MappingProxyType({}),
    dated: tuple[str, ...] = ("createdAt",),
    **columns: Column,
) -> Kind:
    """Return a kind with rows of its own columns, with author, CID and times beside them."""
    return Kind(table, c.reader(dated, columns), known(fields, *dated), values)


NOTHING = c.always(None)


def comment(form: str, fields: str, subject: Column, revision: Column = NOTHING, number: Column = NOTHING) -> Kind:
    """Return a kind of the three comment records; the older two have no revision and no round."""
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
    """Return the kind of a collaborator record, an invite or an acceptance; a missing repository is not guessed."""
    return small(
        "collaborators",
        f"repo {fields}",
        form=c.always(form),
        repository=c.named_repository("repo", "repoDid"),
        subject=c.needed(subject, "a collaboration with nobody that can be read"),
    )


def server(kind: str) -> Kind:
    """Return the kind of a claim to run a knot or spindle; its host is the record key."""
    host = c.needed(c.key_matching(c.HOST), "a server whose record key is not a host name")
    return small("servers", "", kind=c.always(kind), host=host)


def member(kind: str, host_field: str) -> Kind:
    """Return the kind of a member of a knot or spindle; some records name the member only in the key."""
    member_column = c.first(c.did("subject"), c.key_matching(DID))
    return small(
        "server_members",
        f"subject {host_field}",
        kind=c.always(kind),
        host=c.matching(host_field, c.HOST),
        subject=c.needed(member_column, "a membership of nobody that can be read"),
    )


def declaration(name: str) -> Kind:
    read, fields = read_declaration(name), properties(name)
    return Kind("declarations", read, known(*fields), known_values(name))


REPOSITORY = "sh.tangled.repo"
PULL = "sh.tangled.repo.pull"
STATUS = "sh.tangled.repo.pull.status"
VOUCH = "sh.tangled.graph.vouch"
# The domain of an NSID, reversed: at least two labels, 253 characters (atproto.com/specs/nsid) minus the name.
AUTHORITY = re.compile(r"(?=.{3,200}$)[a-z]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+")

TANGLED: Mapping[str, Kind] = {
    REPOSITORY: Kind(
        "repositories",
        read_repository,
        known("name knot spindle description website topics source labels repoDid addedAt owner"),
    ),
    PULL: Kind(
        "pull_requests",
        read_pull,
        known(
            "title body rounds versions source target mentions references dependentOn blobs",
            "patch patchBlob targetRepo targetBranch pullId sourceRepo",
        ),
    ),
    STATUS: Kind("statuses", read_status, known("pull status"), one_of(status="open closed merged")),
    VOUCH: Kind("vouches", read_vouch, known("kind reason evidences"), one_of(kind="vouch denounce")),
    "sh.tangled.feed.comment": comment(
        "feed",
        "subject pullRoundIdx",
        c.uri("subject"),
        c.inside("subject", c.matching("cid", CID)),
        c.number("pullRoundIdx"),
    ),
    "sh.tangled.repo.pull.comment": comment("pull", "pull", c.uri("pull")),
    "sh.tangled.repo.issue.comment": comment("issue", "issue", c.uri("issue")),
    "sh.tangled.repo.issue": small(
        "issues",
        "repo repoDid title body blobs mentions references issueId owner",
        repository=c.needed(c.named_repository("repo", "repoDid"), "an issue without a readable repository"),
        title=c.words("title", 300, ""),
        body=c.words("body", 20_000, ""),
    ),
    "sh.tangled.repo.issue.state": small(
        "issue_states",
        "issue state",
        one_of(state="open closed"),
        issue_uri=c.needed(c.uri("issue"), "a state of no issue that can be read"),
        state=c.needed(c.state("state"), "an issue's state without a readable word"),
        back_written=c.back_written("issue"),
    ),
    "sh.tangled.graph.follow": small(
        "follows", "subject", subject=c.needed(c.did("subject"), "a follow of nobody that can be read")
    ),
    "sh.tangled.feed.star": small(
        "stars",
        "subject subjectDid",
        subject=c.needed(
            c.first(
                c.inside("subject", c.did("did")),
                c.uri("subject"),
                c.did("subject"),
                c.did("subjectDid"),
            ),
            "a star for nothing that can be read",
        ),
    ),
    "sh.tangled.feed.reaction": small(
        "reactions",
        "subject reaction",
        one_of(reaction="👍 👎 😆 🎉 🫤 ❤️ 🚀 👀"),
        subject_uri=c.needed(c.uri("subject"), "a reaction to nothing that can be read"),
        reaction=c.needed(c.words("reaction", 32), "a reaction that does not say which"),
    ),
    "sh.tangled.label.definition": small(
        "label_definitions",
        "name valueType scope color multiple",
        name=c.needed(c.words("name", 200), "a label without a name"),
        value_type=c.value_type,
    ),
    "sh.tangled.label.op": small(
        "label_operations",
        "subject add delete",
        dated=("performedAt", "createdAt"),
        subject_uri=c.needed(c.uri("subject"), "labels on nothing that can be read"),
        added=c.pairs("add", 100),
        removed=c.pairs("delete", 100),
    ),
    "sh.tangled.repo.collaborator": collaborator("collaborator", "subject repoDid", c.did("subject")),
    "sh.tangled.repo.collaboratorInvite": collaborator(
        "invite", "subject", c.first(c.key_matching(DID), c.did("subject"))
    ),
    "sh.tangled.repo.collaboratorAcceptance": collaborator("acceptance", "subject invite", c.author),
    "sh.tangled.knot": server("knot"),
    "sh.tangled.spindle": server("spindle"),
    "sh.tangled.knot.member": member("knot", "domain"),
    "sh.tangled.spindle.member": member("spindle", "instance"),
    "sh.tangled.actor.profile": small(
        "profiles",
        "avatar description links stats bluesky location pinnedRepositories pronouns preferredHandle",
        description=c.words("description", 2560, ""),
        links=c.listed("links", 5, c.WEB_LINK),
        bluesky=c.flag("bluesky"),
        location=c.words("location", 400),
        pronouns=c.words("pronouns", 40),
        preferred_handle=c.matching("preferredHandle", c.HANDLE),
        pinned=c.listed("pinnedRepositories", 6, AT_URI),
    ),
    "sh.tangled.publicKey": small(
        "public_keys",
        "key name",
        dated=("createdAt", "created"),
        name=c.words("name", 300, ""),
        key=c.needed(c.whole("key", 16_384), "a public key without a readable key"),
    ),
    "sh.tangled.string": small(
        "strings",
        "filename description contents",
        filename=c.needed(c.words("filename", 300), "a string without a file name"),
        description=c.words("description", 1000, ""),
    ),
    "sh.tangled.repo.artifact": small(
        "artifacts",
        "name repo repoDid tag artifact",
        repository=c.needed(c.named_repository("repo", "repoDid"), "an artifact without a readable repository"),
        name=c.needed(c.words("name", 300), "an artifact without a name"),
        tag=c.inside("tag", c.words("$bytes", 64)),
    ),
}


ASSESSMENT = Kind(
    "peer_assessments",
    lambda record, event: read_assessment(record, event.rkey),
    known(assessment.FIELDS),
    {"decision": assessment.DECISIONS},
)


# "This account elsewhere is mine", with the signature of a service that looked (ingest/lookups/declared/claims.py).
# Source: packages/lexicon of github.com/orta/keytrace. Old records have one `sig`, newer ones `sigs`.
ACCOUNT_CLAIM = "dev.keytrace.claim"
ACCOUNT_CLAIMS = small(
    "account_claims",
    "type claimUri identity sigs sig statusSig comment status lastVerifiedAt failedAt retractedAt nonce prerelease",
    one_of(status="verified failed retracted"),
    type=c.needed(c.words("type", 40), "a claim that does not say of what kind it is"),
    subject=c.needed(c.inside("identity", c.words("subject", 200)), "a claim on no account that can be read"),
    claim_uri=c.needed(c.whole("claimUri", 1000), "a claim that does not say where its proof is"),
    status=c.first(c.withdrawn("retractedAt"), c.words("status", 40, "verified")),
)


@dataclass(frozen=True)
class Registry:
    """Every record type by NSID; Sunstead's own are under the operator's authority.

    Anybody can write assessments: those of `peers`, other sites that the operator chose, are stored, and no others.
    Claims on accounts elsewhere are stored only of people whom another record made known.
    """

    kinds: Mapping[str, Kind]
    own: frozenset[str]
    assessments: str  # NSID
    peers: frozenset[str] = frozenset()

    def is_ours(self, collection: str) -> bool:
        """Return True if the author of such a record is a contributor here."""
        return collection.startswith(NAMESPACE) or collection in self.own or collection == ACCOUNT_CLAIM

    def is_stored(self, did: str, collection: str) -> bool:
        """Return False for an assessment by an account that is not a peer."""
        return collection != self.assessments or did in self.peers

    def people_named(self, did: str, collection: str, rkey: str) -> tuple[str, ...]:
        """Return the people that a record makes known: its author and, for a vouch, the subject."""
        if not self.is_ours(collection) or not self.is_stored(did, collection):
            return ()
        return (did, rkey) if collection == VOUCH and identifier(DID, rkey) else (did,)

    def wanted_collections(self) -> list[str]:
        return [f"{NAMESPACE}*", *sorted(self.own), ACCOUNT_CLAIM]

    def known_fields(self, collection: str) -> frozenset[str] | None:
        """Return the known fields of such a record at its top level, or None for an unknown collection."""
        kind = self.kinds.get(collection)
        return kind.fields if kind else None

    def read(self, event: Event) -> Record:
        """Read a record of a registered collection. Raises Unreadable with the reason."""
        return self.kinds[event.collection or ""].read(decode(event.body, "a record"), event)


def build_registry(authority: str, peers: Iterable[str] = ()) -> Registry:
    """Return the registry with Sunstead's records under `authority`. Raises ValueError for an invalid domain."""
    if not AUTHORITY.fullmatch(authority) or f"{authority}.".startswith(NAMESPACE):
        raise ValueError(f"{authority!r} is not a domain of yours, reversed, such as com.example")
    assessments = f"{authority}.{assessment.NAME}"
    own = {f"{authority}.{name}": declaration(name) for name in KINDS} | {assessments: ASSESSMENT}
    kinds = {**TANGLED, **own, ACCOUNT_CLAIM: ACCOUNT_CLAIMS}
    return Registry(MappingProxyType(kinds), frozenset(own), assessments, frozenset(peers))


DEFAULT_AUTHORITY = PLACEHOLDER
REGISTRY = build_registry(DEFAULT_AUTHORITY)  # if no operator chose one: tests, demo and recordings
