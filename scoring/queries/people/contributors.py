"""Reads one contributor, or all of them in order, from a snapshot: everything that pages show of people.

What is said against somebody, a denounce, is shown to those who have a reason to trust who says it.

The pull requests of a contributor come with what became of each, in words: what was mined, and what a person marked.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ingest.store.transaction import Rows
from scoring.config.policy import Policy, policy_from_settings
from scoring.formatting import display_name
from scoring.models.registry import SHRUNK_RATE, clean_needed, shrunk_rate
from scoring.pipeline.interventions import LEFT_OUT
from scoring.pipeline.stored import CLAIMS, read_verdict
from scoring.queries.people.scores import HIDDEN, hide_score, score, score_ground, scores_everywhere
from scoring.queries.people.signals import read_signals
from scoring.queries.people.trust import read_trust
from scoring.queries.queue import KEY, REVERTED
from scoring.queries.types import (
    ContributorPage,
    ContributorScore,
    DueAudit,
    HistoryPoint,
    Leaderboard,
    LeaderboardRow,
    LeaderboardSort,
    MergedWork,
    PullLine,
    Record,
    VouchLine,
    pull_label,
)
from scoring.types import Estimate, Evidence, Lane, Person

# Who denounces a person, and whether a viewer hears them for what the store says: the viewer's own denounces, those of
# people who vouch for the viewer, and those of seeds of a set that the viewer belongs to, and of people whom it trusts.
# `trust` has rows of the site's own set for everybody, of a repository's for those who offered something there. The
# others come by the site's trust in them, which no crowd of new accounts has.
DENOUNCERS = """
with said as (
  select distinct voucher_id from vouches
  where subject_id = $subject and kind = 'denounce' and superseded_at is null and voucher_id <> subject_id
), trusted as (
  select repository_id, contributor_id from trust where structural_trust > 0 union all
  select repository_id, contributor_id from seeds
), heard as (
  select $viewer::integer as contributor_id union all
  select voucher_id from vouches where subject_id = $viewer and kind = 'vouch' and superseded_at is null union all
  select contributor_id from trusted semi join said on voucher_id = contributor_id
    semi join (from seeds where contributor_id = $viewer) using (repository_id)
)
select voucher_id, voucher_id in (select contributor_id from heard) as is_heard
from said left join trust site on site.contributor_id = voucher_id and site.repository_id = 0
order by site.structural_trust desc nulls last, voucher_id
"""
# Trust in the others is computed from at most 4 sets, at 24 ms of CPU each among 100,000 people: first from those of
# repositories that the viewer owns or may push to. A maintainer of the site is a seed of all sets, which may be 1,000;
# the site's own, which has all owners and maintainers, misses only what added seeds and other push-holders trust.
SETS_ASKED = 4
SETS = """
select repository_id from seeds where contributor_id = ? and repository_id <> 0
order by role = 'maintainer', repository_id limit ?
"""


def circle_of(rows: Rows, subject: int, viewer: str | None) -> int | None:
    """The number of a viewer, a DID, who may hear denounces of this subject: never the subject, nor nobody."""
    number = rows.value("select contributor_id from contributors where did = ?", [viewer]) if viewer else None
    return None if number == subject else number


SHOWN = 100
SUBJECT = 80  # characters of a commit's subject that are shown
# A person's mark counts before what was mined, as in the record that a score rests on.
RESULT = """
case when p.state = 'abandoned' then 'deleted' when p.state = 'open' then 'open'
  when p.state <> 'merged' then 'unmerged'
  when p.merge_proof is distinct from 'verified' then 'uncounted'
  when k.pull_uri is not null then if(k.outcome = 'clean', 'clean', 'bad')
  when l.clean is null and p.repository_id not in (select repository_id from watched_repositories) then 'outside'
  when l.clean is null then 'watching' when l.clean then 'clean' else 'bad' end
"""
UNMERGED = {"open": "open", "closed": "not merged"}
MARKS = {"clean": "clean", "needed_fix": "needed a fix", "reverted": "reverted"}
PULLS = f"""
select p.*, coalesce(r.name, r.repo_key) as name, h.number, x.added, x.removed,
  case when k.pull_uri is null then l.clean else k.mined_clean end as clean, k.outcome as mark,
  w.repository_id is not null as watched, {RESULT} as result, {KEY} is not distinct from 'needs_human' as flagged
from pull_requests p join repositories r using (repository_id) left join labels l using (pull_uri)
left join marks k using (pull_uri) left join watched_repositories w using (repository_id)
left join pull_pages h using (pull_uri) left join current_decisions c on c.pull_uri = p.pull_uri
left join patches x on x.pull_uri = p.pull_uri and x.patch_ref = p.patch_ref and x.state = 'read'
where p.author_id = ? order by p.opened_at desc, p.pull_uri limit ?
"""
WORK = """
select c.did, p.pull_uri, p.title from pull_requests p join contributors c on c.contributor_id = p.author_id
semi join watched_repositories w on w.repository_id = p.repository_id
where list_contains(?, c.did) and (p.state = 'merged' or list_contains(?, p.pull_uri))
qualify row_number() over (partition by p.author_id order by p.opened_at desc, p.pull_uri) <= ?
order by p.opened_at desc, p.pull_uri
"""
VOUCHED = """
select s.did from vouches v join contributors a on a.contributor_id = v.voucher_id
join contributors s on s.contributor_id = v.subject_id
where a.did = ? and v.kind = 'vouch' and v.superseded_at is null and list_contains(?, s.did)
"""
COUNTED = f"""
select {RESULT} as result, count(*) as pulls, min(p.opened_at) as first_at, max(p.opened_at) as newest_at
from pull_requests p left join labels l using (pull_uri) left join marks k using (pull_uri)
where p.author_id = ? group by 1
"""
MARKED = """
select k.pull_uri, k.outcome, k.mined_clean, c.did, c.handle, c.handle_verified
from marks k join contributors c on c.contributor_id = k.actor_id where list_contains(?, k.pull_uri)
"""
# What marked a merge: the commit that took it back, else the first that changed lines of it.
TROUBLE = """
select f.pull_uri, f.kind, f.evidence, c.subject
from pull_followups f join pull_requests p using (pull_uri)
left join commits c on c.repository_id = p.repository_id and c.commit_id = f.evidence
where list_contains(?, f.pull_uri)
qualify row_number() over (
  partition by f.pull_uri order by f.kind = 'reverted' desc, f.happened_at, f.evidence
) = 1
"""
TROUBLES = {"reverted": "reverted by commit", "patched": "its lines changed by commit"}


def pull_lines(rows: Rows, number: int) -> tuple[PullLine, ...]:
    """The newest 100 pull requests of the contributor with this number, newest first."""
    found = rows.rows(PULLS, [number, SHOWN])
    outcomes = outcomes_in_words(rows, found)
    return tuple(
        PullLine(
            row["pull_uri"],
            row["title"],
            row["name"],
            row["opened_at"],
            row["state"],
            outcomes[row["pull_uri"]],
            row["watched"],
            row["result"],
            pull_label(row["name"], row["number"], row["pull_uri"]),
            row["added"],
            row["removed"],
            row["state"] == "open" and row["flagged"],
        )
        for row in found
    )


def merged_work(rows: Rows, dids: Collection[str], also: Collection[str], most: int) -> dict[str, list[MergedWork]]:
    """Return the newest merged pull requests of these people in watched repositories, newest first, by DID.

    `also` are at-uris of those that were merged from here and are still open in the store.
    """
    work: dict[str, list[MergedWork]] = {}
    for row in rows.rows(WORK, [[*dids], [*also], most]):
        work.setdefault(row["did"], []).append(MergedWork(row["pull_uri"], row["title"]))
    return work


def vouched_for(rows: Rows, voucher: str, dids: Collection[str]) -> set[str]:
    """Return for which of these people, by DID, somebody vouches by a record that stands."""
    return {row["did"] for row in rows.rows(VOUCHED, [voucher, [*dids]])}


def outcomes_in_words(rows: Rows, found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Say what became of each of these pull requests, rows of PULLS, by address."""
    uris = [row["pull_uri"] for row in found]
    marks, troubles = marks_in_words(rows, uris), troubles_in_words(rows, uris)
    return {uri: _both(marks.get(uri), _outcome(row, troubles.get(uri))) for uri, row in zip(uris, found, strict=True)}


def record_of(rows: Rows, number: int) -> Record:
    """Return how many pull requests of the contributor with this number came to which result."""
    found = rows.rows(COUNTED, [number])
    return Record(
        {row["result"]: row["pulls"] for row in found},
        min((row["first_at"] for row in found), default=None),
        max((row["newest_at"] for row in found), default=None),
    )


def marks_in_words(rows: Rows, uris: list[str]) -> dict[str, str]:
    """Return who marked these pull requests as what, such as "marked needed a fix by ana.example.com", by address."""
    found = rows.rows(MARKED, [uris]) if uris else []
    return {row["pull_uri"]: f"marked {MARKS[row['outcome']]} by {display_name(row)}" for row in found}


def troubles_in_words(rows: Rows, uris: list[str]) -> dict[str, str]:
    """Name the commit that marked each of these merges, such as 'reverted by commit 1f0c… ("Back")', by address."""
    found = rows.rows(TROUBLE, [uris]) if uris else []
    return {row["pull_uri"]: _trouble(row) for row in found}


def _trouble(row: Mapping[str, Any]) -> str:
    subject = f' ("{row["subject"][:SUBJECT]}")' if row["subject"] else ""
    return f"{TROUBLES[row['kind']]} {row['evidence'][:12]}{subject}"


def outcome_in_words(rows: Rows, uri: str) -> str | None:
    """The mark of one pull request, which counts, and what Git shows of it; None where nobody marked it."""
    mark = marks_in_words(rows, [uri]).get(uri)
    if mark is None:
        return None
    mined = rows.value("select mined_clean from marks where pull_uri = ?", [uri])
    trouble = troubles_in_words(rows, [uri]).get(uri, "not clean")
    if mined is None:
        return f"{mark}; Git shows no revert yet"
    return f"{mark}; Git shows {'it clean' if mined else trouble}"


def _both(mark: str | None, mined: str) -> str:
    return f"{mark}; {mined}" if mark else mined


def _outcome(row: Mapping[str, Any], trouble: str | None) -> str:
    """Say what became of a pull request, and what marked it."""
    if row["state"] == "merged" and row["merge_proof"] != "verified":
        return "author says merged, unconfirmed"
    if row["state"] == "merged" and row["clean"] is None:
        return "Git shows no revert yet" if row["mark"] else "merged, not counted yet"
    if row["state"] == "merged":
        return "clean merge" if row["clean"] else f"merged, then {trouble or 'fixed or reverted'}"
    if row["state"] == "abandoned":
        return "record deleted"
    claim = CLAIMS.get(row["merge_proof"])
    return UNMERGED[row["state"]] + (f"; {claim}" if claim else "")


HISTORY_SHOWN = 200


def contributor(
    rows: Rows, did: str, viewer: str | None = None, policy: Policy | None = None
) -> ContributorPage | None:
    """Everything that is shown about one DID to `viewer`, a DID; None where nobody has been seen under it.

    `policy`: that of the settings, if it is None.
    """
    person = rows.row("select * from contributors where did = ?", [did])
    overall = score(rows, did)
    if person is None or overall is None:
        return None
    number = person["contributor_id"]
    here, vouches = scores_everywhere(rows, number), _vouches(rows, number, viewer, policy)
    warnings = sum(one.kind == "denounce" for one in vouches)  # those that the viewer may hear
    return ContributorPage(
        score=overall,
        per_repository=tuple(sorted(here, key=lambda one: one.repository or "")),
        vouches=vouches,
        pulls=pull_lines(rows, number),
        history=_history(rows, number),
        did_created_at=person["did_created_at"],
        first_seen_at=person["first_seen_at"] or overall.as_of,
        account_status=person["account_status"],
        stored=tuple(pair for pair in (*_stored(rows, number, did), ("warnings received", warnings)) if pair[1]),
        record=record_of(rows, number),
        signals=read_signals(rows, person),
    )


def hide_chance(page: ContributorPage, audit: DueAudit) -> ContributorPage:
    """Return the page without all that tells the chance; the record stays."""
    hidden = tuple(hide_score(score, audit) for score in page.per_repository)
    return replace(page, score=hide_score(page.score, audit), per_repository=hidden, history=())


def estimate_after(score: ContributorScore, not_clean: int, policy: Policy) -> Estimate | None:
    """P(clean) after so many more contributions that are not clean; None where a trained model says it.

    What a model would say then depends on more than the counts, so nothing is guessed.
    """
    record = _counted_record(score)
    if record is None:
        return None
    return shrunk_rate(record.clean, record.not_clean + not_clean, policy.prior, policy.strength)


def clean_to_reach(score: ContributorScore, target: float, policy: Policy) -> int | None:
    """How many more clean contributions alone bring P(clean) to `target`; None where a trained model says it."""
    record = _counted_record(score)
    return None if record is None else clean_needed(record, policy.prior, policy.strength, target)


def _counted_record(score: ContributorScore) -> Evidence | None:
    """Return the counts that alone decide P(clean), None where a trained model does."""
    held = {factor.name: factor.value for factor in score.verdict.factors}
    clean, other = held.get("clean"), held.get("not_clean")
    if score.model_version != SHRUNK_RATE or not isinstance(clean, int) or not isinstance(other, int):
        return None
    return Evidence(clean=clean, not_clean=other)


def _heard_denouncers(rows: Rows, subject: int, viewer: int, policy: Policy | None) -> list[int]:
    """Return those who denounce the subject and whom the viewer may hear; trust is computed for at most 100."""
    said = rows.rows(DENOUNCERS, {"subject": subject, "viewer": viewer})
    heard = [row["voucher_id"] for row in said if row["is_heard"]]
    others = [row["voucher_id"] for row in said if not row["is_heard"]][:SHOWN]
    for seeds in rows.rows(SETS, [viewer, SETS_ASKED]) if others else ():
        judged = read_trust(rows, seeds["repository_id"], others, policy or policy_from_settings())
        trusted = {person for person, trust in judged.items() if trust["structural_trust"] > 0}
        heard += trusted
        others = [person for person in others if person not in trusted]
    return heard


def _vouches(rows: Rows, number: int, viewer: str | None, policy: Policy | None) -> tuple[VouchLine, ...]:
    """Return who stands for this person, and those who denounce them whom the viewer may hear."""
    listener = circle_of(rows, number, viewer)
    heard = _heard_denouncers(rows, number, listener, policy) if listener is not None else []
    found = rows.rows(
        "select v.kind, coalesce(v.reason, '') as reason, v.seen_at, c.did, c.handle, c.handle_verified, "
        "exists (from vouches b where b.voucher_id = v.subject_id and b.subject_id = v.voucher_id "
        " and b.kind = 'vouch' and b.superseded_at is null) as mutual "
        "from vouches v join contributors c on c.contributor_id = v.voucher_id "
        "anti join hidden_people h on h.contributor_id = v.voucher_id "
        "where v.subject_id = ? and v.voucher_id <> v.subject_id and v.superseded_at is null and (v.kind = 'vouch' or "
        " v.voucher_id in (select unnest(?::integer[]))) order by v.seen_at desc, c.did limit ?",
        [number, heard, SHOWN],
    )
    return tuple(
        VouchLine(Person(row["did"], display_name(row)), row["kind"], row["reason"], row["seen_at"], row["mutual"])
        for row in found
    )


def _history(rows: Rows, number: int) -> tuple[HistoryPoint, ...]:
    """Recorded scores at the site, oldest first; several passes may share the present of a recorded stream."""
    found = rows.rows(
        "select as_of, probability, low, high, lane from scores "
        "where contributor_id = ? and repository_id = 0 and pull_uri is null "
        "order by as_of desc, decided_clock desc limit ?",
        [number, HISTORY_SHOWN],
    )
    figures = ("as_of", "probability", "low", "high")
    return tuple(HistoryPoint(*(row[name] for name in figures), Lane(row["lane"])) for row in reversed(found))


def _stored(rows: Rows, number: int, did: str) -> tuple[tuple[str, int], ...]:
    """Return how much is held about a DID, by what it is."""
    asked = (
        ("events in the log", "events where did = ?", did),
        ("pull requests", "pull_requests where author_id = ?", number),
        ("statuses written", "statuses where actor_id = ?", number),
        ("vouches given", "vouches where voucher_id = ?", number),
        ("vouches received", "vouches where kind = 'vouch' and superseded_at is null and subject_id = ?", number),
        ("scores and decisions", "scores where contributor_id = ?", number),
    )
    return tuple((what, rows.value(f"select count(*) from {where}", [key])) for what, where, key in asked)


PAGE = 50
PROVISIONAL_BELOW = 5
SETTLED = "coalesce(clean + not_clean, 0)"  # of theirs; a model's `cases` are those of everybody with such a score
LISTED = f"contributor_id not in ({LEFT_OUT})"
# Sorted by narrow columns before what is shown is looked up: of 100,000 people 50 are. A place would tell the chance
# that is hidden from the viewer, so such people are ordered like those without a number.
LEADERBOARD = f"""
with reverted as (
  select author_id as contributor_id, count(distinct pull_uri) as reverts
  from ({REVERTED}) join pull_requests using (pull_uri) group by author_id
), chances as (
  select contributor_id, repository_id, {SETTLED} as settled,
    if(list_contains(?, contributor_id), null, probability) as probability
  from current_scores left join features using (contributor_id, repository_id) where repository_id = 0
), placed as (
  select c.contributor_id, c.probability, p.did, p.handle, p.handle_verified, f.merged_here as merged, t.distance,
    coalesce(r.reverts, 0) as reverts, c.settled, if(c.settled < {PROVISIONAL_BELOW}, null, {{number}}) as number,
    if(number is null, null, rank() over (order by number {{direction}} nulls last)) as rank
  from chances c join contributors p using (contributor_id)
  left join features f using (contributor_id, repository_id) left join trust t using (contributor_id, repository_id)
  left join reverted r using (contributor_id)
  where c.{LISTED} order by {{order}} limit ? offset ?
)
select s.*, c.* exclude (contributor_id, probability) from placed c
join current_scores s on s.contributor_id = c.contributor_id and s.repository_id = 0 order by {{order}}
"""
# Digits of a chance beyond the ninth differ between two passes over the same evidence.
LEADERBOARD_ORDER: Mapping[LeaderboardSort, str] = {
    # Who has too few settled to be ranked comes after all others.
    "score": f"c.settled < {PROVISIONAL_BELOW}, round(c.probability, 9) {{}} nulls last, merged desc, did",
    "merged": "merged {}, round(c.probability, 9) desc nulls last, did",
    "reverts": "reverts {}, round(c.probability, 9) desc nulls last, did",
    "hops": "distance {} nulls last, round(c.probability, 9) desc nulls last, did",
}
# The number that is shown in the column: who has the same one shares a rank. Who has none, or too few settled to tell,
# has no rank.
NUMBERS: Mapping[LeaderboardSort, str] = {
    "score": "floor(round(c.probability * 100, 9))",
    "merged": "coalesce(f.merged_here, 0)",
    "reverts": "coalesce(r.reverts, 0)",
    "hops": "t.distance",
}


# The place in the leaderboard as it opens, without making all of it.
PLACE = f"""
with known as (
  select c.contributor_id, {SETTLED} as settled, {NUMBERS["score"]} as number from current_scores c
  left join features using (contributor_id, repository_id) where c.repository_id = 0 and c.{LISTED}
)
select m.settled, if(m.number is null or m.settled < {PROVISIONAL_BELOW}, null, 1 + (
  select count(*) from known k join contributors o using (contributor_id)
  where k.settled >= {PROVISIONAL_BELOW} and k.number > m.number and not list_contains($hidden, o.did))) as place
from known m join contributors p using (contributor_id) where p.did = $did
"""


def place_of(rows: Rows, did: str, hidden: Collection[str] = ()) -> tuple[int | None, int] | None:
    """Return somebody's rank by score, None below five settled pull requests, and how many have settled.

    None for whoever is not listed; `hidden` are the DIDs of others whose chance nobody is told.
    """
    row = rows.row(PLACE, {"did": did, "hidden": list(hidden)})
    return (row["place"], row["settled"]) if row else None


def leaderboard(
    rows: Rows,
    sort: LeaderboardSort,
    descending: bool,
    page: int,
    hidden: Mapping[str, DueAudit] = MappingProxyType({}),
) -> Leaderboard:
    """One page of everyone scored at the site, in the order asked for; pages count from 1.

    `hidden` are those whose chance the viewer is not told, by DID, with the audit that they have to answer first.
    """
    counted = f"select count(*) filter ({LISTED}) as listed, count(*) as scored from current_scores"
    counts = rows.rows(f"{counted} where repository_id = 0")[0]
    total = counts["listed"]
    pages = max(1, -(-total // PAGE))
    page = min(max(page, 1), pages)
    direction = "desc" if descending else "asc"
    order = LEADERBOARD_ORDER[sort].format(direction)
    sql = LEADERBOARD.format(order=order, number=NUMBERS[sort], direction=direction)
    of_hidden = "select contributor_id from contributors where list_contains(?, did)"
    numbers = [row["contributor_id"] for row in rows.rows(of_hidden, [list(hidden)])] if hidden else []
    found = rows.rows(sql, [numbers, PAGE, (page - 1) * PAGE])
    shown = tuple(_leaderboard_row(row, hidden.get(row["did"])) for row in found)
    return Leaderboard(shown, total, page, pages, score_ground(rows).seeds.get(0, ()), counts["scored"] - total)


def _leaderboard_row(row: Mapping[str, Any], audit: DueAudit | None) -> LeaderboardRow:
    return LeaderboardRow(
        rank=row["rank"],
        person=Person(row["did"], display_name(row)),
        verdict=HIDDEN if audit else read_verdict(row),
        merged=row["merged"] or 0,
        reverts=row["reverts"],
        distance=row["distance"],
        provisional=row["settled"] < PROVISIONAL_BELOW,
        hidden_by=audit,
    )
