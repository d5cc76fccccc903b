"""Read judgements of contributors from a snapshot: one or many, current or past.

The scores of one snapshot share what is read once, since planning these statements takes longer than a score. Rows
become ContributorScore objects; people with identical rows share their wording within a snapshot.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ingest.records.watched import find_repository
from ingest.store.snapshots import PerSnapshot, Snapshot
from ingest.store.transaction import Rows
from scoring.config.repository import in_shadow, thresholds_under
from scoring.explain.sentences import explain, plain_sentence, told_reasons
from scoring.formatting import display_name
from scoring.gate.decide import decide_person
from scoring.pipeline.stored import People, read_settled, read_thresholds, read_verdict, verdict_evidence, with_settled
from scoring.queries.changes import SEALED
from scoring.queries.types import ContributorScore, DueAudit
from scoring.types import Estimate, Lane, Person, Verdict

NO_CHANGE_YET = "content_not_reviewed"  # about a person: there is no change to review
SEEDS = """
select s.repository_id, c.did, c.handle, c.handle_verified from seeds s
join contributors c on c.contributor_id = s.contributor_id
anti join hidden_people h on h.contributor_id = s.contributor_id order by c.did
"""
NAMES = """
select repository_id, coalesce(name, repo_key) as name from repositories
where repository_id in (select repository_id from seeds union select repository_id from watched_repositories)
"""
# The lane of a drawn pull request is hidden until somebody answers.
OPEN_PULLS = f"""
select c.contributor_id, c.repository_id, c.pull_uri from current_decisions c join pull_requests p using (pull_uri)
where not {SEALED} order by p.opened_at desc, c.pull_uri
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """Data that all scores share: seeds by repository (0: the site's), names, hidden people, and open pull requests."""

    seeds: Mapping[int, tuple[Person, ...]]
    names: Mapping[int, str]
    hidden: frozenset[int]
    shadowed: frozenset[int]
    settled: int | None
    open_pulls: Mapping[int, list[tuple[int, str]]]  # contributor -> (repository, at-uri), newest first, none sealed


_ground_cache = PerSnapshot[Ground](1)


def score_ground(rows: Rows) -> Ground:
    """Return the shared data, cached for the newest snapshot; read anew from a store that is being written."""
    return (
        _ground_cache.get(rows, "ground", lambda: _read_ground(rows))
        if isinstance(rows, Snapshot)
        else _read_ground(rows)
    )


def _read_ground(rows: Rows) -> Ground:
    seeds: defaultdict[int, list[Person]] = defaultdict(list)
    for row in rows.rows(SEEDS):
        seeds[row["repository_id"]].append(Person(row["did"], display_name(row)))
    pulls: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for row in rows.rows(OPEN_PULLS):
        pulls[row["contributor_id"]].append((row["repository_id"], row["pull_uri"]))
    return Ground(
        seeds={number: tuple(people) for number, people in seeds.items()},
        names={row["repository_id"]: row["name"] for row in rows.rows(NAMES)},
        hidden=frozenset(row["contributor_id"] for row in rows.rows("select contributor_id from hidden_people")),
        shadowed=in_shadow(rows),
        settled=read_settled(rows),
        open_pulls=dict(pulls),
    )


NOT_REACHED: Mapping[str, Any] = {"distance": None, "path": [], "path_merges": []}
MOST_ALIKE = 2_000  # judgements of one snapshot: about 8 kB each
DECIDED = """
select pull_uri, lane, probability, low, high, cases, reasons, factors from current_decisions where pull_uri in ({uris})
"""
_score_cache = PerSnapshot[ContributorScore](MOST_ALIKE)


HIDDEN = Verdict(Lane.NEEDS_HUMAN, Estimate(None, 0.0, 1.0, 0), (), ())


def hidden_words(audit: DueAudit) -> str:
    """Say until when a chance is hidden."""
    return f"Hidden until the audit of {audit.label} is answered"


def hide_score(score: ContributorScore, audit: DueAudit) -> ContributorScore:
    """Return the score without anything that reveals the chance, the lane or the findings of a review."""
    return replace(
        score,
        decision=HIDDEN.lane,
        verdict=HIDDEN,
        newest=None,
        content_risk=None,
        explanation=hidden_words(audit),
        likeness=None,
        hidden_by=audit,
    )


def told_scores(
    rows: Rows, score_rows: Sequence[Mapping[str, Any]], people: Mapping[int, Person], ground: Ground
) -> list[ContributorScore]:
    """Return the scores of these rows of current_scores, in any order, without trust paths.

    Within a snapshot identical scores of different people share a `likeness` and their wording.
    """
    shown, new = [], []
    for row in score_rows:
        likeness = _likeness(row, ground) if isinstance(rows, Snapshot) else None
        cached = _score_cache.peek(rows, likeness) if isinstance(rows, Snapshot) and likeness else None
        if cached:
            shown.append(replace(cached, person=people[row["contributor_id"]]))
        else:
            new.append(({**row, **NOT_REACHED, "likeness": likeness}, read_verdict(row)))
    worded = worded_scores(rows, new, people, ground)
    for score in worded:
        if score.likeness and isinstance(rows, Snapshot):
            _score_cache.keep(rows, score.likeness, score)
    return [*shown, *worded]


def _likeness(row: Mapping[str, Any], ground: Ground) -> tuple[object, ...] | None:
    """Return all values of a row but its person; None where an open pull request affects the score too."""
    if _newest_pull(ground, row):
        return None
    return tuple(value for name, value in row.items() if name != "contributor_id")


def worded_scores(
    rows: Rows, judged: Sequence[tuple[Mapping[str, Any], Verdict]], shown_people: Mapping[int, Person], ground: Ground
) -> tuple[ContributorScore, ...]:
    """Return the judgements for display, in a number of statements that does not grow with them."""
    path_people = {person for row, _ in judged for person in row["path"]} - shown_people.keys()
    people = {**shown_people, **People(rows, path_people).persons}
    newest = {(row["contributor_id"], row["repository_id"]): _newest_pull(ground, row) for row, _ in judged}
    verdicts = _verdicts(rows, [pull[1] for pull in newest.values() if pull])
    scores = []
    for row, verdict in judged:
        pull = newest[row["contributor_id"], row["repository_id"]]
        settled_verdict = with_settled(verdict, ground.settled)
        # The lane shown at the site is that of the newest open pull request.
        lane_is_of = row["repository_id"] or (pull[0] if pull else 0)
        newest_verdict = verdicts.get(pull[1]) if pull else None
        scores.append(
            contributor_score(row, settled_verdict, people, ground, newest_verdict, lane_is_of in ground.shadowed)
        )
    return tuple(scores)


def _newest_pull(ground: Ground, row: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return repository and at-uri of the contributor's newest open pull request there (for the site: anywhere)."""
    own_pulls = ground.open_pulls.get(row["contributor_id"], ())
    return next((pull for pull in own_pulls if row["repository_id"] in (0, pull[0])), None)


def _verdicts(rows: Rows, uris: Sequence[str]) -> dict[str, Verdict]:
    if not uris:
        return {}
    decisions = rows.rows(DECIDED.format(uris=",".join("?" * len(uris))), list(uris))
    return {row["pull_uri"]: read_verdict(row) for row in decisions}


def contributor_score(
    row: Mapping[str, Any],
    verdict: Verdict,
    people: Mapping[int, Person],
    ground: Ground,
    newest: Verdict | None,
    shadow: bool,
) -> ContributorScore:
    """Build the score from a row and its verdict; `newest` is the verdict on the newest open pull request."""
    path = tuple(people[number] for number in row["path"])
    verdict = replace(verdict, reasons=tuple(reason for reason in verdict.reasons if reason.code != NO_CHANGE_YET))
    return ContributorScore(
        person=people[row["contributor_id"]],
        repository=ground.names.get(row["repository_id"]),
        decision=(newest or verdict).lane,
        newest=newest,
        verdict=verdict,
        structural_trust=row["structural_trust"],
        eigentrust=row["eigentrust"],
        content_risk=row["content_risk"],
        distance=row["distance"],
        path=path,
        seeds=ground.seeds.get(row["repository_id"], ()),
        explanation=explain(verdict, verdict_evidence(row, verdict, path)),
        as_of=row["as_of"],
        model_version=row["model_version"],
        trust_measure=row["trust_measure"],
        shadow=shadow,
        likeness=row.get("likeness"),
    )


HIDDEN_WORDS = {
    "deactivated": "was deactivated by its owner",
    "takendown": "was taken down by its host",
    "suspended": "was suspended by its host",
    "deleted": "was deleted, and what is held about it is being erased",
    "erasing": "is being erased here",
}
# Separate statements: one that joins the tables takes longer to plan and run than all of these, for one person of a
# million as for 100.
CURRENT = """
select contributor_id, repository_id, as_of, probability, low, high, cases, structural_trust, eigentrust, content_risk,
  lane, reasons, factors, model_version, trust_measure
from current_scores where contributor_id in ({people})
"""
# With a second condition on the table DuckDB does not use the index, which takes two to four times as long: `offset 0`
# keeps the conditions apart, for .3 ms. 100 people with 500 rows each are found in 5 ms; reading all their rows takes
# 150.
CURRENT_AT = f"from ({CURRENT} offset 0) where repository_id = ?"
# For a person in 41 repositories: 3 ms for all of them, 1 ms for one.
REACHED = "select repository_id, distance, path, path_merges from trust where contributor_id = ?"
REACHED_AT = f"{REACHED} and repository_id = ?"
EARLIER = """
select *, null::integer as distance, []::integer[] as path, []::smallint[] as path_merges from scores
where contributor_id = ? and repository_id = ? and pull_uri is null and as_of <= ?
order by as_of desc, decided_clock desc limit 1
"""
# A person without pull requests in this watched repository: their record elsewhere, the trust of the seeds here.
ELSEWHERE = """
select c.* exclude (repository_id, structural_trust, eigentrust), w.repository_id, t.distance,
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
where c.contributor_id in (select unnest(?::integer[])) and c.repository_id = 0
"""


def score(rows: Rows, did: str, repository: str | None = None) -> ContributorScore | None:
    """Return how a contributor is judged from a repository's seeds, or from the site's; None where either is unknown.

    `repository`: its DID, the at-uri of its record, or OWNER/NAME.
    """
    number, ground, people = _resolve(rows, [did], repository)
    if number is None or not people:
        return None
    score_rows = [row for person in people for row in _scores_with_paths(rows, person, number)]
    verdicts = [(row, read_verdict(row)) for row in score_rows] or _judged_elsewhere(rows, list(people), number, ground)
    return next(iter(worded_scores(rows, verdicts, people, ground)), None)


def scores(rows: Rows, dids: Sequence[str], repository: str | None = None) -> dict[str, ContributorScore]:
    """Return the scores of many people by DID, in a number of statements that does not grow with them.

    Omit unknown people.

    The trust path is only in the explanation: `path` is empty, `distance` None. That saves a third of the CPU.
    """
    number, ground, shown_people = _resolve(rows, dids, repository)
    if number is None or not shown_people:
        return {}
    people = sorted(shown_people)
    score_rows = _current(rows, people, number)
    shown = told_scores(rows, score_rows, shown_people, ground)
    if number and (without_score := sorted(set(people) - {row["contributor_id"] for row in score_rows})):
        verdicts = [
            ({**row, **NOT_REACHED}, verdict) for row, verdict in _judged_elsewhere(rows, without_score, number, ground)
        ]
        shown += worded_scores(rows, verdicts, shown_people, ground)
    return {score.person.did: score for score in shown}


def _resolve(
    rows: Rows, dids: Sequence[str], repository: str | None
) -> tuple[int | None, Ground, Mapping[int, Person]]:
    """Return the repository's number (0: site, None: unknown), the shared data, and the people who are shown."""
    number = 0 if repository is None else find_repository(rows, repository)
    ground = score_ground(rows)
    return number, ground, _shown_people(rows, dids, ground) if number is not None else {}


def scores_everywhere(rows: Rows, contributor: int) -> tuple[ContributorScore, ...]:
    """Return the judgements of one contributor in each repository that has one."""
    judged = [(row, read_verdict(row)) for row in _scores_with_paths(rows, contributor) if row["repository_id"]]
    return worded_scores(rows, judged, People(rows, [contributor]).persons, score_ground(rows))


def score_at(rows: Rows, did: str, moment: datetime, repository: str | None = None) -> ContributorScore | None:
    """Return the newest judgement of data before `moment` (UTC, naive); None where there is none.

    Path, distance and seeds were not stored at that time, so they are empty.
    """
    number = 0 if repository is None else find_repository(rows, repository)
    ground = score_ground(rows)
    people = _shown_people(rows, [did], ground)
    if number is None or not people:
        return None
    row = rows.row(EARLIER, [*people, number, moment])
    if row is None:
        return None
    verdict = read_verdict(row)
    score = contributor_score(row, verdict, people, replace(ground, seeds={}), None, number in ground.shadowed)
    sentences = (plain_sentence(reason).rstrip(".") for reason in told_reasons(verdict))
    # The usual explanation would say that there was no path.
    return replace(score, explanation="; ".join(sentences))


def _scores_with_paths(rows: Rows, contributor: int, number: int | None = None) -> list[dict[str, Any]]:
    """Return the newest judgement of one person in this repository (None: in each), with trust paths."""
    paths = rows.rows(REACHED, [contributor]) if number is None else rows.rows(REACHED_AT, [contributor, number])
    reached = {row["repository_id"]: row for row in paths}
    judged = _current(rows, [contributor], number)
    return [{**reached.get(row["repository_id"], NOT_REACHED), **row} for row in judged]


def _current(rows: Rows, people: Sequence[int], number: int | None = None) -> list[dict[str, Any]]:
    """Return the newest judgements of these people in this repository (None: in each), found by the index by person."""
    marks = ",".join("?" * len(people))
    if number is None:
        return rows.rows(CURRENT.format(people=marks), people)
    return rows.rows(CURRENT_AT.format(people=marks), [*people, number])


def _shown_people(rows: Rows, dids: Sequence[str], ground: Ground) -> dict[int, Person]:
    """Return those of these people who are known and not hidden, by number; 100 of a million are found in 6 ms."""
    if not dids:
        return {}
    placeholders = ",".join("?" * len(dids))  # the index serves single parameters, but not one list
    sql = f"select contributor_id, did, handle, handle_verified from contributors where did in ({placeholders})"
    contributors = (row for row in rows.rows(sql, list(dids)) if row["contributor_id"] not in ground.hidden)
    return {row["contributor_id"]: Person(row["did"], display_name(row)) for row in contributors}


def hidden_because(rows: Rows, did: str) -> str | None:
    """Return what is wrong with the account of a person who is hidden; None for everybody else."""
    return hidden_among(rows, [did]).get(did)


def hidden_among(rows: Rows, dids: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with each hidden account among these, by DID, in one statement."""
    if not dids:
        return {}
    placeholders = ",".join("?" * len(dids))
    sql = (
        "select c.did, h.account_status from hidden_people h join contributors c using (contributor_id) "
        f"where c.did in ({placeholders})"
    )
    hidden = rows.rows(sql, list(dids))
    return {row["did"]: HIDDEN_WORDS.get(row["account_status"], "is not active on the network") for row in hidden}


def _judged_elsewhere(
    rows: Rows, people: Sequence[int], number: int, ground: Ground
) -> list[tuple[Mapping[str, Any], Verdict]]:
    """Return the rows of ELSEWHERE, each with its verdict.

    None at the site, where everybody has a judgement of their own.
    """
    if not number:
        return []
    score_rows = rows.rows(ELSEWHERE, [number, people])
    people_on_paths = People(rows, (person for row in score_rows for person in row["path"])).persons
    return [
        (row, _judge_elsewhere(row, tuple(people_on_paths[person] for person in row["path"]))) for row in score_rows
    ]


def _judge_elsewhere(row: Mapping[str, Any], path: Sequence[Person]) -> Verdict:
    """Return the verdict on one row of ELSEWHERE: P(clean) and its factors stay, the trust of the seeds here is new."""
    overall = read_verdict(row)
    evidence = replace(
        verdict_evidence(row, overall, path),
        **dict.fromkeys(("merged_here", "settled_here", "waiting"), 0),
        **{name: row[name] for name in ("is_seed", "one_account", "denounced_by_seed", "trusted_denouncers")},
    )
    lane, reasons = decide_person(evidence, overall.estimate, thresholds_under(read_thresholds(row), row["budget"]))
    factors = [
        factor if factor.effect is not None else replace(factor, value=getattr(evidence, factor.name))
        for factor in overall.factors
    ]
    return Verdict(lane, overall.estimate, reasons, tuple(factors))
