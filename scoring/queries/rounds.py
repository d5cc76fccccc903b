"""Read the rounds of a pull request, the stored patches, and their addresses on the forge.

It also finds the pull request that an address means, and what anybody may know of it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from ingest.git.patch import PatchProblem, load_patch
from ingest.records.watched import find_repository
from ingest.store.snapshots import PerSnapshot, Snapshot
from ingest.store.transaction import Rows
from scoring.pipeline.interventions import LEFT_OUT
from scoring.queries.types import named_by, pull_label

ROUNDS_SHOWN = 50  # the newest: anybody can add a round to their own pull request every second

# A patch that was replaced within its round stays in the list, and is numbered back from the last one.
ROUNDS = f"""
with named as (
  select round, patch_ref, seen_at from pull_rounds where pull_uri = $uri
  union all
  select round, patch_ref, changed_at from pull_requests p where pull_uri = $uri and patch_ref is not null
    and not exists (from pull_rounds r where r.pull_uri = p.pull_uri and r.patch_ref = p.patch_ref)
), numbered as (
  select *, row_number() over (partition by round order by seen_at desc, patch_ref) - 1 as exchanged from named
  qualify row_number() over (order by round desc, seen_at desc, patch_ref) <= {ROUNDS_SHOWN}
)
select n.*, coalesce(n.round = p.round and n.patch_ref = p.patch_ref, false) as newest,
  k.state, k.sha256, k.patch_id, k.bytes, f.outcome, f.reason
from numbered n
join pull_requests p on p.pull_uri = $uri
left join patches k on k.pull_uri = $uri and k.patch_ref = n.patch_ref
left join fetches f on f.kind = 'patch' and f.subject = $uri || ' ' || n.patch_ref
order by n.round, n.exchanged desc
"""
REPOSITORY = """
select r.name, o.did as owner, case when o.handle_verified then o.handle end as handle
from repositories r left join contributors o on o.contributor_id = r.owner_id
where r.repo_key = ? and r.deleted_at is null
"""
HOMES = """
select r.repo_key, r.name, o.did as owner, case when o.handle_verified then o.handle end as handle
from repositories r semi join watched_repositories using (repository_id)
left join contributors o on o.contributor_id = r.owner_id
where r.deleted_at is null order by r.name, r.repo_key
"""
_repositories = PerSnapshot[Mapping[str, Any] | None]()


@dataclass(frozen=True, slots=True)
class Round:
    """One patch that a pull request named. `state` is None while it was not fetched; `problem` says why.

    `key` names it in addresses: its number from 1, and after a hyphen how many patches replaced it within its round.
    """

    key: str
    number: int
    patch_ref: str
    seen_at: datetime
    newest: bool
    state: Literal["read", "malformed", "oversized"] | None
    sha256: str | None  # hash of the stored text; None: none is stored
    patch_id: str | None
    bytes: int
    problem: str


@dataclass(frozen=True, slots=True)
class ForgeHome:
    """The parts of a pull request's address on the forge as they are known now, even if names have changed."""

    author: str  # DID
    owner: str | None  # DID of the repository's current owner
    handle: str | None  # the owner's verified handle
    name: str | None  # of the repository; None where it has none
    number: int | None


@dataclass(frozen=True, slots=True)
class RepositoryHome:
    """A watched repository as the forge addresses it now: by the DID or verified handle of its owner, and its name."""

    key: str
    owner: str | None  # DID
    handle: str | None
    name: str | None


def rounds(rows: Rows, uri: str) -> tuple[Round, ...]:
    """Return the newest 50 patches that a pull request named, oldest first."""
    return tuple(_round(row) for row in rows.rows(ROUNDS, {"uri": uri}))


def newest_patch(rows: Rows, uri: str, size: int) -> str | None:
    """Return the hash of the newest round's stored patch where it has at most `size` bytes."""
    sql = (
        "select k.sha256 from pull_requests p join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref "
        "where p.pull_uri = ? and k.bytes <= ?"
    )
    return rows.value(sql, [uri, size])


def forge_home(rows: Rows, uri: str, author: str, repository_key: str) -> ForgeHome:
    """Return the current address parts on the forge of a pull request by this DID in this repository."""
    number = rows.value("select number from pull_pages where pull_uri = ?", [uri])
    row = _repository(rows, repository_key) or dict.fromkeys(("owner", "handle", "name"))
    return ForgeHome(author, row["owner"], row["handle"], row["name"], number)


def repository_homes(rows: Rows) -> tuple[RepositoryHome, ...]:
    """Return the watched repositories by name."""
    return tuple(RepositoryHome(row["repo_key"], row["owner"], row["handle"], row["name"]) for row in rows.rows(HOMES))


def _repository(rows: Rows, key: str) -> Mapping[str, Any] | None:
    """Return a repository's current owner and name, read once for a snapshot, since all of its rows need them."""
    if not isinstance(rows, Snapshot):
        return rows.row(REPOSITORY, [key])
    return _repositories.get(rows, key, lambda: rows.row(REPOSITORY, [key]))


def kept_text(folder: Path, sha256: str | None) -> str | None:
    """Return the text of a stored patch; None where none is stored, or where its file does not match its hash."""
    if sha256 is None:
        return None
    try:
        return load_patch(folder, sha256)
    except PatchProblem:
        return None


def _round(row: Mapping[str, Any]) -> Round:
    number = row["round"] + 1
    return Round(
        f"{number}-{row['exchanged']}" if row["exchanged"] else str(number),
        number,
        row["patch_ref"],
        row["seen_at"],
        row["newest"],
        row["state"],
        row["sha256"],
        row["patch_id"],
        row["bytes"] or 0,
        row["reason"] or "" if row["state"] is None and row["outcome"] != "found" else "",
    )


_PATH = re.compile(r"/@?([A-Za-z0-9.:_-]{1,253})/([A-Za-z0-9._-]{1,100})/pulls/([0-9]{1,9})(?:/.*)?")
MOST = 20  # pull requests shown for one person
FEWEST_OF_TITLE = 4  # least length of a part of a title: shorter ones match every title
# One statement in every case: a hidden pull request takes as long as one that never existed.
HERE = f"""
select p.pull_uri, p.title, coalesce(r.name, r.repo_key) as name, g.number, p.seen_at, p.state,
  case when p.state <> 'open' then coalesce(p.state_at, p.changed_at) end as decided_at,
  p.state = 'open' and p.merge_proof is not distinct from 'unverified' as claimed,
  not exists (
    from pull_requests o where o.author_id = p.author_id and o.repository_id = p.repository_id
      and o.state in ('merged', 'closed') and o.state_at between o.opened_at and p.opened_at
  ) as first_timer
from pull_requests p join repositories r using (repository_id) semi join watched_repositories using (repository_id)
join contributors c on c.contributor_id = p.author_id left join pull_pages g using (pull_uri)
anti join hidden_people h on h.contributor_id = p.author_id
where p.deleted_at is null and p.state <> 'abandoned' and p.author_id not in ({LEFT_OUT})
  and (p.pull_uri = $uri or ((p.state = 'open' or $decided) and (
    $who in (c.did, if(c.handle_verified, lower(c.handle), null))
    or (c.handle_verified and starts_with(lower(c.handle), lower($title) || '.'))
    or ends_with(p.pull_uri, $key_end) or g.number = $number
    or lower(p.title) = lower($title)
    or (length($title) >= {FEWEST_OF_TITLE} and contains(lower(p.title), lower($title)))
  )))
order by p.state = 'open' desc, p.seen_at desc, p.pull_uri limit {MOST}
"""


@dataclass(frozen=True, slots=True)
class Here:
    """A pull request as anybody may find it: no author, no judgement. `title` is for those who may read the inbox.

    `since`: when this site first saw it. `decided_at` is None while it is open. `first_timer`: nothing by its author
    was decided in that repository before it was opened. `claimed`: it is open, and its author marked it as merged.
    """

    uri: str
    title: str
    label: str  # as in the queue: "datasette #12", or the last five characters of the record key
    repository_name: str
    since: datetime
    state: str  # 'open', 'merged', 'closed'
    decided_at: datetime | None
    first_timer: bool
    claimed: bool


def here(rows: Rows, address: str, who: str, title: str = "", decided: bool = False) -> tuple[Here, ...]:
    """Return the pull request at `address` (an at-uri or its page on the forge), or the open ones of a person or title.

    The open ones come first, then the newest. With `decided`, a person or title finds decided ones too. `who` is a DID
    or a verified handle; `title` may be the label, a whole title, a part of FEWEST_OF_TITLE characters or more, or the
    first part of a verified handle. Empty parameters match nothing. Repositories that are not watched are omitted, and
    people who are hidden, erased or left out of the leaderboard. Nothing is fetched.
    """
    uri = address if address.startswith("at://") else pull_at(rows, address)
    key_end, number = named_by(title)
    asked = {"uri": uri or "", "who": who, "title": title, "key_end": key_end, "number": number, "decided": decided}
    pulls = rows.rows(HERE, asked)
    return tuple(_here(row["name"], row) for row in pulls)


def repository_at(rows: Rows, address: str) -> tuple[str, bool] | None:
    """Return OWNER/NAME of the pull request's page at `address` and True if that repository is watched.

    None where `address` is no such page. It tells nothing of the pull request itself.
    """
    if (place := _place(address)) is None:
        return None
    number = find_repository(rows, place[0])
    return place[0], rows.row("select 1 from watched_repositories where repository_id = ?", [number]) is not None


def _here(name: str, row: Mapping[str, Any]) -> Here:
    label = pull_label(name, row["number"], row["pull_uri"])
    return Here(
        row["pull_uri"],
        row["title"] or "",
        label,
        name,
        row["seen_at"],
        row["state"],
        row["decided_at"],
        row["first_timer"],
        row["claimed"],
    )


def pull_at(rows: Rows, address: str) -> str | None:
    """Return the at-uri of the pull request on this page (https://HOST/OWNER/NAME/pulls/NUMBER); None where unknown.

    The host is ignored: the page may be on a mirror of the forge's site. Nothing is fetched.
    """
    return pulls_at(rows, [address]).get(address)


def pulls_at(rows: Rows, addresses: Iterable[str]) -> dict[str, str]:
    """Return the same of many pages by their addresses, without those that are unknown."""
    places = {address: place for address in addresses if (place := _place(address))}
    named = {name: find_repository(rows, name) for name in dict.fromkeys(name for name, _ in places.values())}
    numbers = [number for _, number in places.values()]
    sql = (
        "select p.repository_id, g.number, g.pull_uri from pull_pages g join pull_requests p using (pull_uri) "
        "where list_contains(?, p.repository_id) and list_contains(?, g.number)"
    )
    found = rows.rows(sql, [[one for one in named.values() if one is not None], numbers]) if numbers else ()
    uris = {(row["repository_id"], row["number"]): row["pull_uri"] for row in found}
    at = {address: uris.get((named[name], number)) for address, (name, number) in places.items()}
    return {address: uri for address, uri in at.items() if uri}


def _place(address: str) -> tuple[str, int] | None:
    """Return OWNER/NAME and the number of a pull request's page."""
    try:
        match = _PATH.fullmatch(unquote(urlsplit(address).path))
    except ValueError:
        return None
    return (f"{match[1]}/{match[2]}", int(match[3])) if match else None
