"""Scopes of granular permissions: parse them, tell what a grant covers, and list what each act needs. Pure.

Granted scopes are understood, not compared as text: servers drop what they do not know, reorder parameters and expand
permission sets (atproto.com/specs/permission). Of the resources only `repo` and `rpc` are ever asked for.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, unquote

from ingest.atproto.syntax import NAMESPACE

IDENTITY = "atproto"
SCHEMA, DEFINITION = "com.atproto.lexicon.schema", f"{NAMESPACE}label.definition"
ACTIONS = ("create", "update", "delete")

_NSID = re.compile(r"(?=.{5,317}\Z)(?:[a-zA-Z](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.){2,}[a-zA-Z][a-zA-Z0-9]{0,62}")
_AUDIENCE = re.compile(r"\*|did:(?:web:[a-zA-Z0-9.%-]{1,253}|plc:[a-z2-7]{24})#[A-Za-z0-9._-]{1,100}")
_PARAMETERS = {"repo": {"collection", "action"}, "rpc": {"lxm", "aud"}}


@dataclass(frozen=True, slots=True)
class Permission:
    """One thing that may be done: an action on a collection (`repo`), or a method of an audience (`rpc`)."""

    resource: str
    target: str  # NSID, or "*"
    mode: str  # action, or audience; an audience may be "*"

    def covers(self, other: "Permission") -> bool:
        is_any_audience = self.resource == "rpc" and self.mode == "*"
        return (
            self.resource == other.resource
            and self.target in ("*", other.target)
            and (is_any_audience or self.mode == other.mode)
        )


class Act(StrEnum):
    """Something that a person does in their own name."""

    MERGE = "merge"
    CLOSE = "close"
    TAKE_BACK_CLOSE = "take back a closing"
    VOUCH = "vouch"
    TAKE_BACK_VOUCH = "take back a vouch"
    COMMENT = "comment"
    TAKE_BACK_COMMENT = "take back a comment"
    APPROVE = "publish an approval"
    TAKE_BACK_APPROVAL = "take back an approval"
    LABEL = "label"
    TAKE_BACK_LABEL = "take back a label"


def parse_scope(text: str) -> tuple[Permission, ...]:
    """Return the permissions in one scope, none if it is of another resource or malformed, so that it grants nothing.

    A resource's first parameter may also stand behind a colon: `repo:a.b.c` is `repo?collection=a.b.c`.
    """
    head, _, query = text.partition("?")
    resource, colon, positional = head.partition(":")
    if resource not in _PARAMETERS or len(text) > 4_000:
        return ()
    first = "collection" if resource == "repo" else "lxm"
    pairs = parse_qsl(query, keep_blank_values=True)
    values = {name: [value for key, value in pairs if key == name] for name, _ in pairs}
    if not values.keys() <= _PARAMETERS[resource] or (colon and first in values):
        return ()
    targets = [unquote(positional)] if colon else values.get(first, [])
    if not targets or not all(target == "*" or _NSID.fullmatch(target) for target in targets):
        return ()
    modes = values.get("action", list(ACTIONS)) if resource == "repo" else values.get("aud", [])
    if not _are_modes(resource, targets, modes):
        return ()
    return tuple(Permission(resource, target, mode) for target in targets for mode in modes)


def _are_modes(resource: str, targets: list[str], modes: list[str]) -> bool:
    if resource == "repo":
        return set(modes) <= set(ACTIONS)
    return len(modes) == 1 and _AUDIENCE.fullmatch(modes[0]) is not None and not (modes == ["*"] and "*" in targets)


def missing_scopes(granted: str, needed: str) -> list[str]:
    """Return the needed scopes that a grant does not cover, in their order. A malformed one is always missing."""
    granted_texts = granted.split()
    permissions = [permission for text in granted_texts for permission in parse_scope(text)]

    def is_covered(text: str) -> bool:
        if text == IDENTITY:
            return text in granted_texts
        wanted = parse_scope(text)
        return bool(wanted) and all(any(own.covers(one) for own in permissions) for one in wanted)

    return [text for text in needed.split() if not is_covered(text)]


def act_scope(act: Act, authority: str) -> str:
    """Return the smallest scope for an act. `authority` is the namespace of this site's own records.

    A merge needs `aud=*`: knots want their bare did:web, which a scope with a fixed audience cannot name. mergeCheck is
    never asked for, as a knot takes any token for it as one for everything.
    """
    scopes = {
        Act.MERGE: f"rpc:{NAMESPACE}repo.merge?aud=* {_repo('repo.pull.status', 'create')}",
        Act.CLOSE: _repo("repo.pull.status", "create"),
        Act.TAKE_BACK_CLOSE: _repo("repo.pull.status", "delete"),
        Act.VOUCH: _repo("graph.vouch", "create", "update"),
        Act.TAKE_BACK_VOUCH: _repo("graph.vouch", "delete"),
        Act.COMMENT: _repo("feed.comment", "create"),
        Act.TAKE_BACK_COMMENT: _repo("feed.comment", "delete"),
        Act.APPROVE: f"repo:{authority}.approval?action=create",
        Act.TAKE_BACK_APPROVAL: f"repo:{authority}.approval?action=delete",
        Act.LABEL: _repo("label.op", "create"),
        Act.TAKE_BACK_LABEL: _repo("label.op", "delete"),
    }
    return f"{IDENTITY} {scopes[act]}"


def scope_to_ask(granted: str, act: Act, authority: str) -> str:
    """Return the scope of a new sign-in that keeps what was granted before and adds one act.

    Made of the texts of the client's metadata, as a server refuses any other spelling.
    """
    kept = [known for known in Act if not missing_scopes(granted, act_scope(known, authority))]
    return _join(act_scope(known, authority) for known in (*kept, act))


def every_scope(authority: str) -> str:
    """Return all that this site may ever ask for, which its metadata has to say."""
    acts = (act_scope(act, authority) for act in Act)
    return _join([IDENTITY, *acts, service_scope(authority, with_schemas=True, with_label=True)])


def published_collections(authority: str) -> tuple[str, str]:
    """Return the collections of what the service account publishes: assessments, and the record of the service."""
    return f"{authority}.assessment", f"{authority}.service"


def service_scope(authority: str, with_schemas: bool = False, with_label: bool = False) -> str:
    """Return the scope of the service account: exactly its collections.

    Besides, only where they are published, those of the schemas and of the definition of the label of Tangled.
    """
    more = ((SCHEMA,) if with_schemas else ()) + ((DEFINITION,) if with_label else ())
    collections = (*published_collections(authority), *more)
    return " ".join([IDENTITY, *(f"repo:{collection}" for collection in collections)])


def _repo(name: str, *actions: str) -> str:
    return f"repo:{NAMESPACE}{name}?{'&'.join(f'action={action}' for action in actions)}"


def _join(scopes: Iterable[str]) -> str:
    def split() -> Iterator[str]:
        for scope in scopes:
            yield from scope.split()

    return " ".join(dict.fromkeys(split()))
