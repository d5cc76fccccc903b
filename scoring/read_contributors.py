"""One contributor, and all of them in order, read from a snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ingest.transaction import Rows
from ingest.watch import find_repository
from scoring.answers import (
    ContributorPage,
    ContributorScore,
    HistoryPoint,
    Leaderboard,
    LeaderboardRow,
    LeaderboardSort,
    Person,
    VouchLine,
)
from scoring.audit_answers import SEALED
from scoring.circle import CIRCLE, circle_of
from scoring.derived import display_name
from scoring.explain import explain
from scoring.gate import decide_person
from scoring.objections import LEFT_OUT
from scoring.own_rules import thresholds_under
from scoring.pull_lines import pull_lines
from scoring.read_repositories import in_shadow
from scoring.shaping import (
    COUNTED,
    People,
    read_thresholds,
    read_verdict,
    verdict_evidence,
    with_settled,
)
from scoring.verdict import Lane, Verdict

PAGE = 50
HIDDEN_WORDS = {
    "deactivated": "was deactivated by its owner",
    "takendown": "was taken down by its host",
    "suspended": "was suspended by its host",
    "deleted": "was deleted, and what is held about it is being erased",
    "erasing": "is being erased here",
}
HISTORY_SHOWN = 200
PROVISIONAL_BELOW = 5
SCORES = f"""
select c.*, ({COUNTED}) as settled, t.distance, coalesce(t.path, []) as path,
  coalesce(t.path_merges, []) as path_merges
from current_scores c
left join trust t on t.contributor_id = c.contributor_id and t.repository_id = c.repository_id
"""
# Somebody who offered nothing in this watched repository: their record elsewhere, the trust of the seeds here.
ELSEWHERE = f"""
select c.* exclude (repository_id, structural_trust, eigentrust), ({COUNTED}) as settled, w.repository_id, t.distance,
  coalesce(t.structural_trust, 0) as structural_trust, coalesce(t.eigentrust, 0) as eigentrust,
  coalesce(t.path, []) as path, coalesce(t.path_merges, []) as path_merges,
  coalesce(t.denounced_by_seed, false) as denounced_by_seed,
  t.dominator is not null or t.distance is null as one_account,
  coalesce(t.trusted_denouncers, 0) as trusted_denouncers,
  exists (from seeds s where s.repository_id = w.repository_id and s.contributor_id = c.contributor_id) as is_seed,
  x.budget
from current_scores c join watched_repositories w on w.repository_id = ?
left join repository_settings x on x.repository_id = w.repository_id
left join trust t on t.contributor_id = c.contributor_id and t.repository_id = w.repository_id
where c.contributor_id = ? and c.repository_id = 0
"""
SEEDS = """
select s.repository_id, c.did, c.handle, c.handle_verified from seeds s
join contributors c on c.contributor_id = s.contributor_id
anti join hidden_people h on h.contributor_id = s.contributor_id where list_contains(?, s.repository_id) order by c.did
"""
# What the audit drew tells its lane to nobody until somebody answered.
OPEN_LANES = f"""
select c.repository_id, c.lane, c.probability, c.low, c.high, c.cases, c.reasons, c.factors
from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
where c.contributor_id = ? and not {SEALED} order by p.opened_at desc, c.pull_uri
"""
LISTED = f"contributor_id not in ({LEFT_OUT})"
# Sorted by narrow columns before what is shown is looked up: of 100,000 people 50 are.
LEADERBOARD = f"""
with reverted as (
  select q.author_id as contributor_id, count(*) as reverts
  from pull_followups u join pull_requests q using (pull_uri) where u.kind = 'reverted' group by q.author_id
), placed as (
  select c.contributor_id, c.probability, p.did, p.handle, p.handle_verified, f.merged_here as merged, t.distance,
    coalesce(r.reverts, 0) as reverts
  from current_scores c join contributors p using (contributor_id)
  left join features f using (contributor_id, repository_id) left join trust t using (contributor_id, repository_id)
  left join reverted r using (contributor_id)
  where c.repository_id = 0 and c.{LISTED} order by {{order}} limit ? offset ?
)
select c.*, p.* exclude (contributor_id, probability) from placed p
join current_scores c on c.contributor_id = p.contributor_id and c.repository_id = 0 order by {{order}}
"""
LEADERBOARD_ORDER: Mapping[LeaderboardSort, str] = {
    "score": "c.probability {} nulls last, merged desc, did",
    "merged": "merged {}, c.probability desc nulls last, did",
    "reverts": "reverts {}, c.probability desc nulls last, did",
    "hops": "distance {} nulls last, c.probability desc nulls last, did",
}


def score(rows: Rows, did: str, repository: str | None = None) -> ContributorScore | None:
    """How a contributor is judged from a repository's seeds, or from the site's; None where one of the two is unknown.

    `repository`: its DID, the at-uri of its record, or OWNER/NAME.
    """
    number = 0 if repository is None else find_repository(rows, repository)
    person = rows.value("select contributor_id from contributors where did = ?", [did])
    if number is None or person is None or hidden_because(rows, did):
        return None
    row = rows.row(f"{SCORES} where c.contributor_id = ? and c.repository_id = ?", [person, number])
    if row is not None:
        return _scores(rows, [(row, read_verdict(row))])[0]
    row = rows.row(ELSEWHERE, [number, person])
    return _scores(rows, [(row, _judge_elsewhere(rows, row))])[0] if row else None


def hidden_because(rows: Rows, did: str) -> str | None:
    """What is wrong with the account of somebody who is shown to nobody for now; None for everybody else."""
    sql = "select h.account_status from hidden_people h join contributors c using (contributor_id) where c.did = ?"
    status = rows.value(sql, [did])
    return HIDDEN_WORDS.get(status, "is not active on the network") if status else None


def _judge_elsewhere(rows: Rows, row: Mapping[str, Any]) -> Verdict:
    """The verdict on one row of ELSEWHERE: P(clean) and its factors stay, what the seeds here say is new."""
    overall = read_verdict(row)
    known = replace(
        verdict_evidence(row, overall, People(rows, row["path"]).path(row["path"])),
        **dict.fromkeys(("merged_here", "settled_here", "waiting"), 0),
        **{name: row[name] for name in ("is_seed", "one_account", "denounced_by_seed", "trusted_denouncers")},
    )
    lane, reasons = decide_person(known, overall.estimate, thresholds_under(read_thresholds(row), row["budget"]))
    factors = [
        one if one.effect is not None else replace(one, value=getattr(known, one.name)) for one in overall.factors
    ]
    return Verdict(lane, overall.estimate, reasons, tuple(factors))


def _scores(rows: Rows, judged: Sequence[tuple[Mapping[str, Any], Verdict]]) -> tuple[ContributorScore, ...]:
    """The judgements of one contributor as shown, in a number of statements that does not grow with them."""
    if not judged:
        return ()
    judged = [(row, with_settled(verdict, row["settled"])) for row, verdict in judged]
    numbers = [row["repository_id"] for row, _ in judged]
    seeds = rows.rows(SEEDS, [numbers])
    people = People(rows, [judged[0][0]["contributor_id"], *(person for row, _ in judged for person in row["path"])])
    sql = (
        "select repository_id, coalesce(name, repo_key) as name from repositories where list_contains(?, repository_id)"
    )
    names = {row["repository_id"]: row["name"] for row in rows.rows(sql, [numbers])} if any(numbers) else {}
    lanes = rows.rows(OPEN_LANES, [judged[0][0]["contributor_id"]])
    shadowed = in_shadow(rows)
    made = (
        _contributor_score(row, verdict, people, _seeds_of(seeds, row), names, _newest(lanes, row))
        for row, verdict in judged
    )
    pairs = zip(made, judged, strict=True)
    return tuple(replace(one, shadow=_lane_is_of(lanes, row) in shadowed) for one, (row, _) in pairs)


def _lane_is_of(lanes: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> int:
    """The number of the repository whose lane is told: at the site that of the newest open pull request, else 0."""
    return row["repository_id"] or next((lane["repository_id"] for lane in lanes), 0)


def _seeds_of(seeds: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> tuple[Person, ...]:
    here = (seed for seed in seeds if seed["repository_id"] == row["repository_id"])
    return tuple(Person(seed["did"], display_name(seed)) for seed in here)


def _newest(lanes: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> Verdict | None:
    """The verdict on the contributor's newest open pull request there (for the site: anywhere)."""
    return next((read_verdict(one) for one in lanes if row["repository_id"] in (0, one["repository_id"])), None)


def _contributor_score(
    row: Mapping[str, Any],
    verdict: Verdict,
    people: People,
    seeds: tuple[Person, ...],
    names: Mapping[int, str],
    newest: Verdict | None,
) -> ContributorScore:
    path = people.path(row["path"])
    return ContributorScore(
        person=people.persons[row["contributor_id"]],
        repository=names.get(row["repository_id"]),
        decision=(newest or verdict).lane,
        newest=newest,
        verdict=verdict,
        structural_trust=row["structural_trust"],
        eigentrust=row["eigentrust"],
        content_risk=row["content_risk"],
        distance=row["distance"],
        path=path,
        seeds=seeds,
        explanation=explain(verdict, verdict_evidence(row, verdict, path)),
        as_of=row["as_of"],
        model_version=row["model_version"],
        trust_measure=row["trust_measure"],
    )


def leaderboard(rows: Rows, sort: LeaderboardSort, descending: bool, page: int) -> Leaderboard:
    """One page of everyone scored at the site, in the order asked for; pages count from 1."""
    counted = f"select count(*) filter ({LISTED}) as listed, count(*) as scored from current_scores"
    counts = rows.rows(f"{counted} where repository_id = 0")[0]
    total = counts["listed"]
    pages = max(1, -(-total // PAGE))
    page = min(max(page, 1), pages)
    order = LEADERBOARD_ORDER[sort].format("desc" if descending else "asc")
    found = rows.rows(LEADERBOARD.replace("{order}", order), [PAGE, (page - 1) * PAGE])
    first = (page - 1) * PAGE + 1
    shown = tuple(_leaderboard_row(first + place, row) for place, row in enumerate(found))
    return Leaderboard(
        shown, total, page, pages, _seeds_of(rows.rows(SEEDS, [[0]]), {"repository_id": 0}), counts["scored"] - total
    )


def _leaderboard_row(rank: int, row: Mapping[str, Any]) -> LeaderboardRow:
    return LeaderboardRow(
        rank=rank,
        person=Person(row["did"], display_name(row)),
        verdict=read_verdict(row),
        merged=row["merged"] or 0,
        reverts=row["reverts"],
        distance=row["distance"],
        provisional=row["cases"] < PROVISIONAL_BELOW,
    )


def contributor(rows: Rows, did: str, viewer: str | None = None) -> ContributorPage | None:
    """Everything that is shown about one DID to `viewer`, a DID; None where nobody has been seen under it."""
    person = rows.row("select * from contributors where did = ?", [did])
    overall = score(rows, did)
    if person is None or overall is None:
        return None
    number = person["contributor_id"]
    each = rows.rows(f"{SCORES} where c.contributor_id = ? and c.repository_id > 0", [number])
    here = _scores(rows, [(row, read_verdict(row)) for row in each])
    return ContributorPage(
        score=overall,
        per_repository=tuple(sorted(here, key=lambda one: one.repository or "")),
        vouches=_vouches(rows, number, viewer),
        pulls=pull_lines(rows, number),
        history=_history(rows, number),
        did_created_at=person["did_created_at"],
        first_seen_at=person["first_seen_at"] or overall.as_of,
        account_status=person["account_status"],
        stored=_stored(rows, number, did),
    )


def _vouches(rows: Rows, number: int, viewer: str | None) -> tuple[VouchLine, ...]:
    """Who stands for this person, and those who denounce them whom the viewer may hear (CIRCLE)."""
    found = rows.rows(
        "select v.kind, coalesce(v.reason, '') as reason, v.seen_at, c.did, c.handle, c.handle_verified "
        "from vouches v join contributors c on c.contributor_id = v.voucher_id "
        "anti join hidden_people h on h.contributor_id = v.voucher_id "
        "where v.subject_id = ? and v.voucher_id <> v.subject_id and v.superseded_at is null and (v.kind = 'vouch' or "
        f" v.voucher_id in ({CIRCLE})) order by v.seen_at desc, c.did limit 100",
        [number, *[circle_of(rows, number, viewer)] * 3],
    )
    return tuple(
        VouchLine(Person(row["did"], display_name(row)), row["kind"], row["reason"], row["seen_at"]) for row in found
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
    """How much is held about a DID, by what it is."""
    asked = (
        ("events in the log", "events where did = ?", did),
        ("pull requests", "pull_requests where author_id = ?", number),
        ("statuses written", "statuses where actor_id = ?", number),
        ("vouches given, every version", "vouches where voucher_id = ?", number),
        ("vouches received, every version", "vouches where subject_id = ?", number),
        ("scores and decisions", "scores where contributor_id = ?", number),
    )
    return tuple((what, rows.value(f"select count(*) from {where}", [key])) for what, where, key in asked)
