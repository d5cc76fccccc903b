"""Reads the circumstances of each open pull request from the store, for the conditions of the fast lane.

Everything is read as of a moment: later events and later entries of a public log do not count. Each statement reads all
open pull requests at once; nothing here reads a diff.

Attestations of jurisdiction are judged for repositories of the tier 'sensitive' alone. Nothing is inferred from
addresses, places or profiles: only what the contributor chose to show and an issuer confirmed counts. There are three
ways: an attestation by an issuer whom the maintainers accept; a contributor who is such an issuer; a did:web on a
domain of an accepted organisation, which the organisation itself gave out.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import unquote

from ingest.atproto.syntax import is_did
from ingest.lookups.attestations import ATTESTATION
from ingest.store.transaction import Rows
from scoring.diff.paths import Touched, never_fast_kinds
from scoring.formatting import display_name
from scoring.pipeline.interventions import read_closed_pulls, read_open_objections, read_outdated_pulls
from scoring.pipeline.peers import read_peer_flags
from scoring.pipeline.signing import read_signing
from scoring.thresholds import RepositoryRules
from scoring.types import AccountChange, Attestation, Circumstances, Draw, LaneClosed, Pair, PeerFlag, Signing

State = Literal["valid", "missing", "expired", "revoked", "unverifiable"]

STALE = timedelta(days=7)  # a proof that could not be renewed for so long counts no longer
# Of several attestations the state that comes first here counts.
PRECEDENCE: tuple[State, ...] = ("valid", "revoked", "expired", "unverifiable", "missing")


@dataclass(frozen=True, slots=True)
class CheckedAttestation:
    """One attestation record of a contributor as it was last checked.

    `proof` is 'proven', 'revoked' or 'unverifiable'; `issuer` None where the record could not be proven. `withdrawn`:
    the contributor deleted it, after it had been proven. Times are naive UTC.
    """

    proof: str
    issuer: str | None
    valid_from: datetime | None
    valid_until: datetime | None
    checked_at: datetime
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class AcceptedIssuers:
    """Issuers that a repository's maintainers accept: DIDs, and organisations' domains with all names below them."""

    issuers: frozenset[str]
    domains: frozenset[str]

    def include(self, did: str) -> bool:
        return did in self.issuers or self.lies_on_a_domain(did)

    def lies_on_a_domain(self, did: str) -> bool:
        """Return whether a did:web is at one of the domains, or at a name below one."""
        if not did.startswith("did:web:") or not is_did(did):  # an escaped / or @ would name another host
            return False
        host = unquote(did.removeprefix("did:web:")).partition(":")[0].lower()
        return any(host == domain or host.endswith(f".{domain}") for domain in self.domains)


def attestation_state(
    did: str,
    attestations: Sequence[CheckedAttestation],
    accepted: AcceptedIssuers,
    document_stands: bool,
    now: datetime,
) -> State:
    """Return the state of the contributor with this DID at `now`, by the issuers that these maintainers accept.

    `document_stands`: the contributor's DID document was found at its own host when it was last looked up, which a
    did:web needs. An attestation holds from its first moment up to, and without, its last.
    """
    if did in accepted.issuers:
        return "valid"
    if accepted.lies_on_a_domain(did):
        return "valid" if document_stands else "unverifiable"
    # An attestation whose issuer is unknown may be by an accepted one.
    relevant = (item for item in attestations if item.issuer is None or accepted.include(item.issuer))
    states = {_state_of(attestation, did, now) for attestation in relevant}
    return next((state for state in PRECEDENCE if state in states), "missing")


def _state_of(attestation: CheckedAttestation, did: str, now: datetime) -> State:
    if attestation.withdrawn or attestation.proof == "revoked":
        return "revoked"
    if attestation.proof != "proven" or attestation.issuer in (None, did) or now - attestation.checked_at > STALE:
        return "unverifiable"
    if attestation.valid_from is None or attestation.valid_until is None:
        return "unverifiable"
    if now >= attestation.valid_until:
        return "expired"
    return "valid" if now >= attestation.valid_from else "missing"


OPEN = "pull_requests p semi join watched_repositories using (repository_id)"
# The newest round that was seen, when it and the pull request were seen, and what is known of the files.
ROUNDS = f"""
select p.pull_uri, p.repository_id, p.author_id, p.round as judged_round,
  greatest(max(r.round), p.round) as newest_round, coalesce(max(r.seen_at), p.seen_at) as round_seen_at, p.seen_at,
  any_value(t.kinds) as kinds, any_value(t.paths) as paths, any_value(t.whole) as whole,
  any_value(d.drawn) as drawn, any_value(d.odds) as odds
from {OPEN}
left join pull_rounds r on r.pull_uri = p.pull_uri and r.seen_at <= $now
left join touched_files t on t.pull_uri = p.pull_uri and t.patch_ref = p.patch_ref
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
left join audit_draws d on (d.pull_uri, d.round, d.record_cid, d.patch_id)
  = (p.pull_uri, p.round, coalesce(p.record_cid, ''), coalesce(k.patch_id, ''))
where p.state = 'open'
group by p.pull_uri, p.repository_id, p.author_id, p.round, p.seen_at order by p.pull_uri
"""
# Look-ups that have not ended or whose answer still changes. A repository without a knot or spindle is not looked up.
PENDING = f"""
with open as (
  select p.pull_uri, p.patch_ref, p.pull_uri || ' ' || p.patch_ref as subject, p.repository_id, r.repo_key, r.knot,
    r.spindle
  from {OPEN} join repositories r using (repository_id) where p.state = 'open'
), ended as (select kind, subject from fetches where outcome in ('found', 'absent'))
select pull_uri, 'patch' as what from open o
anti join patches k on (k.pull_uri, k.patch_ref) = (o.pull_uri, o.patch_ref)
union all
select pull_uri, 'ci' from open o anti join ended e on e.kind = 'ci' and e.subject = o.subject where o.spindle <> ''
union all
select o.pull_uri, 'ci' from open o join ci_runs c on (c.pull_uri, c.patch_ref) = (o.pull_uri, o.patch_ref)
where c.state = 'running'
union all
select pull_uri, 'push_holders' from open o
anti join ended e on e.kind = 'push_holders' and e.subject = o.repo_key where o.knot <> ''
"""
FAILED = f"""
select pull_uri from {OPEN} join ci_runs c using (pull_uri, patch_ref) where p.state = 'open' and c.state = 'failed'
"""
NAMES = """
select contributor_id, did, handle, handle_verified from contributors where contributor_id in (select unnest($people))
"""
IDENTIFIED = """
select c.contributor_id from contributors c semi join fetches f on f.kind = 'identity' and f.subject = c.did
  and f.outcome in ('found', 'absent')
where c.contributor_id in (select unnest($people))
"""
# The accounts that an author's trust rests on: the strongest path, whether one account can end the trust, and whether a
# second seed certainly reaches the author. Where that is not certain, the seed counts as the only one.
RESTS_ON = f"""
select t.repository_id, t.contributor_id, t.path, t.dominator is not null as hangs,
  coalesce(t.other_seed, false) as has_other_seed
from trust t
where (t.repository_id, t.contributor_id) in (select (p.repository_id, p.author_id) from {OPEN} where p.state = 'open')
"""
CHANGES = """
select contributor_id, key as kind, max(known_from) as changed_at
from signals s join contributors c on c.did = s.subject
where s.source = 'plc' and s.key in ('key_rotations', 'pds_moves', 'handle_changes', 'recoveries', 'tombstoned')
  and known_from <= $now and known_from > $now - to_days($days) and contributor_id in (select unnest($people))
group by all
union all
select contributor_id, kind, max(seen_at) from account_changes
where seen_at <= $now and seen_at > $now - to_days($days) and contributor_id in (select unnest($people))
group by all
order by contributor_id, changed_at desc, kind
"""
RECORD_TABLES = ("comments", "issues", "issue_states", "follows", "stars", "reactions", "label_operations", "strings")
# Signs of life of the authors, by the time at which they were seen; each with the days since the one before.
SIGNS = f"""
with signs as (
  select author_id as person, seen_at from pull_requests
  union all select p.author_id, r.seen_at from pull_rounds r join pull_requests p using (pull_uri)
  union all select voucher_id, seen_at from vouches
  union all select actor_id, seen_at from statuses
  {" ".join(f"union all select author_id, seen_at from {table}" for table in RECORD_TABLES)}
)
select person, seen_at, datesub('day', lag(seen_at) over (partition by person order by seen_at), seen_at) as gap
from (select distinct person, seen_at from signs where person in (select unnest($people)) and seen_at <= $now)
qualify gap is null or gap > 0
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment of reading, with `days` for which a change of an account counts."""

    now: datetime
    days: int


OBJECTED: Mapping[str | None, bool | Literal["maintainer"]] = {
    "contributor": True,
    "maintainer": "maintainer",
    None: False,
}


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts read from the store, each by the person or the pull request that it is about."""

    names: Mapping[int, str]
    pending: Mapping[str, tuple[str, ...]]
    identified: frozenset[int]
    rests_on: Mapping[Pair, Mapping[str, Any]]  # rows of RESTS_ON
    changes: Mapping[int, tuple[tuple[str, int], ...]]
    signs: Mapping[int, tuple[tuple[datetime, int | None], ...]]
    closures: Mapping[str, tuple[LaneClosed, ...]]
    objected: Mapping[str, Literal["contributor", "maintainer"]]
    outdated: frozenset[str]
    failed: frozenset[str]
    peer_flags: Mapping[str, tuple[PeerFlag, ...]]
    signing: Mapping[str, Signing]


def read_circumstances(
    rows: Rows,
    moment: Moment,
    rules: Mapping[int, RepositoryRules],
    default: RepositoryRules,
    attestations: Mapping[Pair, Attestation],
) -> dict[str, Circumstances]:
    """Return the circumstances of every open pull request of a watched repository, by its address.

    `rules` holds the rules of repositories that have their own, `attestations` the states where one is asked for.
    """
    pulls = rows.rows(ROUNDS, {"now": moment.now})
    facts = _read_facts(rows, moment, pulls)
    return {
        pull["pull_uri"]: _circumstances(
            pull,
            facts,
            moment,
            rules.get(pull["repository_id"], default),
            attestations.get((pull["author_id"], pull["repository_id"]), "not_asked"),
        )
        for pull in pulls
    }


def _read_facts(rows: Rows, moment: Moment, pulls: Sequence[Mapping[str, Any]]) -> _Facts:
    trusted = rows.rows(RESTS_ON)
    authors = {pull["author_id"] for pull in pulls}
    people = sorted(authors.union(*(row["path"] for row in trusted)))
    identified = rows.rows(IDENTIFIED, {"people": people})
    changes = rows.rows(CHANGES, {"now": moment.now, "days": moment.days, "people": people})
    return _Facts(
        names={row["contributor_id"]: display_name(row) for row in rows.rows(NAMES, {"people": people})},
        pending=_grouped((row["pull_uri"], row["what"]) for row in rows.rows(PENDING)),
        identified=frozenset(row["contributor_id"] for row in identified),
        rests_on={(row["contributor_id"], row["repository_id"]): row for row in trusted},
        changes=_grouped(
            (row["contributor_id"], (row["kind"], (moment.now - row["changed_at"]).days)) for row in changes
        ),
        signs=_grouped(
            (row["person"], (row["seen_at"], row["gap"]))
            for row in rows.rows(SIGNS, {"now": moment.now, "people": sorted(authors)})
        ),
        closures=read_closed_pulls(rows, moment.now),
        objected=read_open_objections(rows),
        outdated=frozenset(read_outdated_pulls(rows)),
        failed=frozenset(row["pull_uri"] for row in rows.rows(FAILED)),
        peer_flags=read_peer_flags(rows, moment.now),
        signing=read_signing(rows, moment.now),
    )


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, tuple[Any, ...]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(dict.fromkeys(values)) for key, values in groups.items()}


def _circumstances(
    pull: Mapping[str, Any],
    facts: _Facts,
    moment: Moment,
    rules: RepositoryRules,
    attestation: Attestation,
) -> Circumstances:
    people = dict(_people_behind(pull, facts))
    unidentified = () if facts.identified.issuperset(people) else ("identity",)
    touched = None if pull["kinds"] is None else Touched(tuple(pull["kinds"]), tuple(pull["paths"]), pull["whole"])
    return Circumstances(
        judged_round=pull["judged_round"],
        newest_round=pull["newest_round"],
        pending=(*unidentified, *sorted(facts.pending.get(pull["pull_uri"], ()))),
        account_changes=tuple(
            AccountChange(role, kind, days, None if role == "author" else facts.names[person])
            for person, role in people.items()
            for kind, days in facts.changes.get(person, ())
        ),
        silent_days=_silent_days(pull, facts.signs.get(pull["author_id"], ()), moment.days),
        touched=None if touched is None else never_fast_kinds(touched, rules.never_fast_paths),
        tier=rules.tier,
        attestation=attestation,
        draw=None if pull["odds"] is None else Draw(pull["drawn"], pull["odds"]),
        closures=facts.closures.get(pull["pull_uri"], ()),
        objected=OBJECTED[facts.objected.get(pull["pull_uri"])],
        outdated=pull["pull_uri"] in facts.outdated,
        tests_failed=pull["pull_uri"] in facts.failed,
        peer_flags=facts.peer_flags.get(pull["pull_uri"], ()),
        signing=facts.signing.get(pull["pull_uri"]),
    )


def _people_behind(pull: Mapping[str, Any], facts: _Facts) -> Iterator[tuple[int, Any]]:
    """Yield the people whose accounts a change depends on, with their roles: the author, and the only trust path."""
    trust = facts.rests_on.get((pull["author_id"], pull["repository_id"]))
    if trust and trust["hangs"]:
        yield from ((person, "voucher") for person in trust["path"][1:-1])
    if trust and trust["path"] and not trust["has_other_seed"]:
        yield trust["path"][0], "seed"
    yield pull["author_id"], "author"


def _silent_days(pull: Mapping[str, Any], signs: Sequence[tuple[datetime, int | None]], days: int) -> int | None:
    """Return the longest gap that ended at most `days` before the newest round; None for an unknown author."""
    if not any(seen_at < pull["seen_at"] for seen_at, _ in signs):
        return None
    since = pull["round_seen_at"]
    return max((gap for seen_at, gap in signs if gap is not None and (since - seen_at).days < days), default=0)


AUTHORS_TO_ATTEST = """
select distinct p.author_id, p.repository_id, c.did, x.accepted_issuers, x.organisation_domains,
  coalesce(f.outcome = 'found', false) as document_stands
from pull_requests p join repository_settings x using (repository_id)
semi join watched_repositories w on w.repository_id = p.repository_id
join contributors c on c.contributor_id = p.author_id
left join fetches f on f.kind = 'identity' and f.subject = c.did
where p.state = 'open' and x.tier = 'sensitive'
"""
# A record that its author deleted before it was proven was never an attestation. A revocation by an issuer counts as
# soon as the stream brings it: no lane opens on it.
CHECKS = f"""
select d.author_id, k.issuer, k.valid_from, k.valid_until,
  case when s.deleted_at is not null or json_extract_string(s.value, '$.revoked') = 'true' then 'revoked'
       else coalesce(k.proof, 'unverifiable') end as proof,
  coalesce(k.checked_at, d.changed_at) as checked_at, d.deleted_at is not null as withdrawn
from declarations d left join attestation_checks k on k.uri = d.uri
left join declarations s on s.uri = k.statement_uri
where d.kind = '{ATTESTATION}' and (d.deleted_at is null or k.was_proven)
"""


def read_attestation_states(rows: Rows, now: datetime) -> dict[Pair, State]:
    """Return the attestation states of authors with an open pull request in a repository of the tier 'sensitive'."""
    authors = rows.rows(AUTHORS_TO_ATTEST)
    checked: dict[int, list[CheckedAttestation]] = defaultdict(list)
    for row in rows.rows(CHECKS) if authors else ():
        checked[row.pop("author_id")].append(CheckedAttestation(**row))
    states: dict[Pair, State] = {}
    for row in authors:
        accepted = AcceptedIssuers(frozenset(row["accepted_issuers"]), frozenset(row["organisation_domains"]))
        theirs = checked.get(row["author_id"], ())
        state = attestation_state(row["did"], theirs, accepted, row["document_stands"], now)
        states[row["author_id"], row["repository_id"]] = state
    return states
