"""Reads the judgements of contributors from a snapshot, one or many at once, now or as they stood.

The scores of one snapshot share what is read once, since planning these statements takes longer than a score.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ingest.records.watched import find_repository
from ingest.store.snapshots import PerSnapshot, Snapshot
from ingest.store.transaction import Rows
from scoring.config.policy import Policy, policy_from_settings
from scoring.config.repository import in_shadow, thresholds_under
from scoring.explain.decided import explain
from scoring.explain.sentences import plain_sentence, told_reasons
from scoring.formatting import display_name
from scoring.gate.decide import decide_person
from scoring.pipeline.stored import People, read_settled, read_thresholds, read_verdict, verdict_evidence, with_settled
from scoring.queries.changes import SEALED
from scoring.queries.people.trust import read_trust
from scoring.queries.types import ContributorScore, DueAudit
from scoring.types import NO_ESTIMATE, Lane, Person, Verdict

NO_CHANGE_YET = "content_not_reviewed"  # of a person: there is no change whose content could be read
SEEDS = """
select s.repository_id, c.did, c.handle, c.handle_verified from seeds s
join contributors c on c.contributor_id = s.contributor_id
anti join hidden_people h on h.contributor_id = s.contributor_id order by c.did
"""
NAMES = """
select repository_id, coalesce(name, repo_key) as name from repositories
where repository_id in (select repository_id from seeds union select repository_id from watched_repositories)
"""
# What the audit drew tells its lane to nobody until somebody answered.
OPEN_PULLS = f"""
select c.contributor_id, c.repository_id, c.pull_uri from current_decisions c join pull_requests p using (pull_uri)
where not {SEALED} order by p.opened_at desc, c.pull_uri
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """Seeds by repository (0: the site's), its names, who is hidden, and everybody's open pull requests."""

    seeds: Mapping[int, tuple[Person, ...]]
    names: Mapping[int, str]
    hidden: frozenset[int]
    shadowed: frozenset[int]
    settled: int | None
    open_pulls: Mapping[int, list[tuple[int, str]]]  # contributor -> (repository, at-uri), newest first, none sealed


# Where no lane is open anywhere, the site's own judgement too says only what would be fast lane.
ANY_OPEN = (
    "select count(*) from repository_settings semi join watched_repositories using (repository_id) where not shadow"
)
_grounds = PerSnapshot[Ground](1)


def score_ground(rows: Rows) -> Ground:
    """The same for all who ask the newest snapshot; read anew from a store that is written to."""
    return _grounds.get(rows, "ground", lambda: _read(rows)) if isinstance(rows, Snapshot) else _read(rows)


def _read(rows: Rows) -> Ground:
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
        shadowed=in_shadow(rows) | (frozenset() if rows.value(ANY_OPEN) else {0}),
        settled=read_settled(rows),
        open_pulls=dict(pulls),
    )


NOT_REACHED: Mapping[str, Any] = {"distance": None, "path": [], "path_merges": []}
TRUSTED_BY_NOBODY: Mapping[str, Any] = {
    **NOT_REACHED,
    "structural_trust": 0.0,
    "denounced_by_seed": False,
    "one_account": True,
    "trusted_denouncers": 0,
}
DECIDED = """
select pull_uri, lane, probability, low, high, cases, reasons, factors from current_decisions where pull_uri in ({uris})
"""

HIDDEN = Verdict(Lane.NEEDS_HUMAN, NO_ESTIMATE, (), ())


def hidden_words(audit: DueAudit) -> str:
    """Say until when a chance is hidden."""
    return f"Hidden until the audit of {audit.label} is answered"


def hide_score(score: ContributorScore, audit: DueAudit) -> ContributorScore:
    """Return the score without all that tells the chance, the lane or what a review found."""
    return replace(
        score,
        decision=HIDDEN.lane,
        verdict=HIDDEN,
        newest=None,
        content_risk=None,
        explanation=hidden_words(audit),
        hidden_by=audit,
    )


def worded_scores(
    rows: Rows, judged: Sequence[tuple[Mapping[str, Any], Verdict]], known: Mapping[int, Person], ground: Ground
) -> tuple[ContributorScore, ...]:
    """The judgements as shown, in a number of statements that does not grow with them."""
    others = {person for row, _ in judged for person in row["path"]} - known.keys()
    people = {**known, **People(rows, others).persons}
    newest = {(row["contributor_id"], row["repository_id"]): _newest_pull(ground, row) for row, _ in judged}
    verdicts = _verdicts(rows, [pull[1] for pull in newest.values() if pull])
    made = []
    for row, verdict in judged:
        pull = newest[row["contributor_id"], row["repository_id"]]
        told = with_settled(verdict, ground.settled)
        # The lane that is told at the site is that of the newest open pull request.
        lane_is_of = row["repository_id"] or (pull[0] if pull else 0)
        newest_verdict = verdicts.get(pull[1]) if pull else None
        made.append(contributor_score(row, told, people, ground, newest_verdict, lane_is_of in ground.shadowed))
    return tuple(made)


def _newest_pull(ground: Ground, row: Mapping[str, Any]) -> tuple[int, str] | None:
    """Repository and at-uri of the contributor's newest open pull request there (for the site: anywhere)."""
    mine = ground.open_pulls.get(row["contributor_id"], ())
    return next((pull for pull in mine if row["repository_id"] in (0, pull[0])), None)


def _verdicts(rows: Rows, uris: Sequence[str]) -> dict[str, Verdict]:
    if not uris:
        return {}
    found = rows.rows(DECIDED.format(uris=",".join("?" * len(uris))), list(uris))
    return {row["pull_uri"]: read_verdict(row) for row in found}


def contributor_score(
    row: Mapping[str, Any],
    verdict: Verdict,
    people: Mapping[int, Person],
    ground: Ground,
    newest: Verdict | None,
    shadow: bool,
) -> ContributorScore:
    """A row with its verdict as it is told; `newest` is the verdict on the newest open pull request."""
    path = tuple(people[number] for number in row["path"])
    verdict = replace(verdict, reasons=tuple(one for one in verdict.reasons if one.code != NO_CHANGE_YET))
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
    )


HIDDEN_WORDS = {
    "deactivated": "was deactivated by its owner",
    "takendown": "was taken down by its host",
    "suspended": "was suspended by its host",
    "deleted": "was deleted, and what is held about it is being erased",
    "erasing": "is being erased here",
}
# Statements apart: one that joins the tables takes longer to plan and run than all, for one of a million as for 100.
CURRENT = """
select contributor_id, repository_id, as_of, probability, low, high, cases, structural_trust, eigentrust, content_risk,
  lane, reasons, factors, model_version, trust_measure
from current_scores where contributor_id in ({people})
"""
# With a second condition on the table DuckDB leaves the index, which takes two to four times as long: `offset 0` keeps
# it out, for .3 ms. 100 people with 500 rows each are found in 5 ms, where reading all their rows takes 150.
CURRENT_AT = f"from ({CURRENT} offset 0) where repository_id = ?"
# Somebody in 41 repositories: 3 ms, in the one that is asked about 1.
REACHED = "select repository_id, distance, path, path_merges from trust where contributor_id = ?"
REACHED_AT = f"{REACHED} and repository_id = ?"
EARLIER = """
select *, null::integer as distance, []::integer[] as path, []::smallint[] as path_merges from scores
where contributor_id = ? and repository_id = ? and pull_uri is null and as_of <= ?
order by as_of desc, decided_clock desc limit 1
"""
# Somebody who offered nothing in this watched repository: their record elsewhere, the trust of the seeds here.
ELSEWHERE = """
select c.* exclude (repository_id, structural_trust), w.repository_id,
  exists (from seeds s where s.repository_id = w.repository_id and s.contributor_id = c.contributor_id) as is_seed,
  x.budget
from current_scores c join watched_repositories w on w.repository_id = ?
left join repository_settings x on x.repository_id = w.repository_id
where c.contributor_id in (select unnest(?::integer[])) and c.repository_id = 0
"""


def score(rows: Rows, did: str, repository: str | None = None, policy: Policy | None = None) -> ContributorScore | None:
    """Return how a contributor is judged from a repository's seeds, or from the site's.

    None where one of the two is unknown.

    `repository`: its DID, the at-uri of its record, or OWNER/NAME; `policy`: that of the settings, if it is None.
    """
    number, ground, known = _asked(rows, [did], repository)
    if number is None or not known:
        return None
    found = [row for person in known for row in _reached(rows, person, number)]
    judged = [(row, read_verdict(row)) for row in found] or _elsewhere(rows, list(known), number, policy)
    return next(iter(worded_scores(rows, judged, known, ground)), None)


def scores(
    rows: Rows, dids: Sequence[str], repository: str | None = None, policy: Policy | None = None
) -> dict[str, ContributorScore]:
    """The same for many, by DID, in a number of statements that does not grow with them; the unknown are left out.

    How trust reaches them is only in the explanation: `path` is empty, `distance` None. It saves a third of the CPU.
    """
    number, ground, known = _asked(rows, dids, repository)
    if number is None or not known:
        return {}
    judged: list[tuple[Mapping[str, Any], Verdict]]
    judged = [(row, read_verdict(row)) for row in _current(rows, sorted(known), number)]
    if others := sorted(known.keys() - {row["contributor_id"] for row, _ in judged}):
        judged += _elsewhere(rows, others, number, policy)
    unreached = [({**row, **NOT_REACHED}, verdict) for row, verdict in judged]
    return {score.person.did: score for score in worded_scores(rows, unreached, known, ground)}


def _asked(rows: Rows, dids: Sequence[str], repository: str | None) -> tuple[int | None, Ground, Mapping[int, Person]]:
    """The number of the repository (0: the site, None: unknown), what all scores share, and who of these is shown."""
    number = 0 if repository is None else find_repository(rows, repository)
    ground = score_ground(rows)
    return number, ground, _shown_people(rows, dids, ground) if number is not None else {}


def scores_everywhere(rows: Rows, contributor: int) -> tuple[ContributorScore, ...]:
    """The judgements of one contributor in each repository where there is one, by their number."""
    judged = [(row, read_verdict(row)) for row in _reached(rows, contributor) if row["repository_id"]]
    return worded_scores(rows, judged, People(rows, [contributor]).persons, score_ground(rows))


def score_at(rows: Rows, did: str, moment: datetime, repository: str | None = None) -> ContributorScore | None:
    """The newest judgement that was made of what was seen before `moment` (UTC, naive); None where there is none.

    What is told was kept then; path, distance and seeds were not, so they are empty.
    """
    number = 0 if repository is None else find_repository(rows, repository)
    ground = score_ground(rows)
    known = _shown_people(rows, [did], ground)
    if number is None or not known:
        return None
    row = rows.row(EARLIER, [*known, number, moment])
    if row is None:
        return None
    verdict = read_verdict(row)
    made = contributor_score(row, verdict, known, replace(ground, seeds={}), None, number in ground.shadowed)
    said = (plain_sentence(reason).rstrip(".") for reason in told_reasons(verdict))
    # The usual explanation would say that there was no path.
    return replace(made, explanation="; ".join(said))


def _reached(rows: Rows, contributor: int, number: int | None = None) -> list[dict[str, Any]]:
    """The newest judgement of one person in this repository (None: in each), with how trust reaches them."""
    found = rows.rows(REACHED, [contributor]) if number is None else rows.rows(REACHED_AT, [contributor, number])
    reached = {row["repository_id"]: row for row in found}
    judged = _current(rows, [contributor], number)
    return [{**reached.get(row["repository_id"], NOT_REACHED), **row} for row in judged]


def _current(rows: Rows, people: Sequence[int], number: int | None = None) -> list[dict[str, Any]]:
    """The newest judgements of these people in this repository (None: in each), found by the index by person."""
    marks = ",".join("?" * len(people))
    if number is None:
        return rows.rows(CURRENT.format(people=marks), people)
    return rows.rows(CURRENT_AT.format(people=marks), [*people, number])


def _shown_people(rows: Rows, dids: Sequence[str], ground: Ground) -> dict[int, Person]:
    """Those of these people who are known and not hidden for now, by number; of a million 100 are found in 6 ms."""
    if not dids:
        return {}
    asked = ",".join("?" * len(dids))  # parameters are looked up in the index, a list as one parameter is not
    sql = f"select contributor_id, did, handle, handle_verified from contributors where did in ({asked})"
    found = (row for row in rows.rows(sql, list(dids)) if row["contributor_id"] not in ground.hidden)
    return {row["contributor_id"]: Person(row["did"], display_name(row)) for row in found}


def hidden_because(rows: Rows, did: str) -> str | None:
    """Return what is wrong with the account of somebody who is shown to nobody for now; None for everybody else."""
    return hidden_among(rows, [did]).get(did)


def hidden_among(rows: Rows, dids: Sequence[str]) -> dict[str, str]:
    """The same for many, by DID, in one statement; who is shown is left out."""
    if not dids:
        return {}
    asked = ",".join("?" * len(dids))
    sql = (
        "select c.did, h.account_status from hidden_people h join contributors c using (contributor_id) "
        f"where c.did in ({asked})"
    )
    found = rows.rows(sql, list(dids))
    return {row["did"]: HIDDEN_WORDS.get(row["account_status"], "is not active on the network") for row in found}


def _elsewhere(
    rows: Rows, people: Sequence[int], number: int, policy: Policy | None
) -> list[tuple[Mapping[str, Any], Verdict]]:
    """The rows of ELSEWHERE, each with its verdict; none at the site, where everybody has a judgement of their own."""
    if not number:
        return []
    policy = policy or policy_from_settings()
    found = rows.rows(ELSEWHERE, [number, people])
    trusted = read_trust(rows, number, [row["contributor_id"] for row in found], policy) if found else {}
    found = [{**row, **_seen_from_here(trusted.get(row["contributor_id"]))} for row in found]
    met = People(rows, (person for row in found for person in row["path"])).persons
    return [(row, _judge_elsewhere(row, tuple(met[person] for person in row["path"]))) for row in found]


def _seen_from_here(trust: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The columns of a row of `trust` that a judgement takes; nothing but zeros for somebody who has none."""
    if trust is None:
        return TRUSTED_BY_NOBODY
    one_account = trust["dominator"] is not None or trust["distance"] is None
    seen = {"one_account": one_account, **trust}
    return {name: seen[name] for name in TRUSTED_BY_NOBODY}


def _judge_elsewhere(row: Mapping[str, Any], path: Sequence[Person]) -> Verdict:
    """The verdict on one row of ELSEWHERE: P(clean) and its factors stay, what the seeds here say is new."""
    overall = read_verdict(row)
    known = replace(
        verdict_evidence(row, overall, path),
        **dict.fromkeys(("merged_here", "settled_here", "waiting"), 0),
        **{name: row[name] for name in ("is_seed", "one_account", "denounced_by_seed", "trusted_denouncers")},
    )
    lane, reasons = decide_person(known, overall.estimate, thresholds_under(read_thresholds(row), row["budget"]))
    factors = [
        one if one.effect is not None else replace(one, value=getattr(known, one.name)) for one in overall.factors
    ]
    return Verdict(lane, overall.estimate, reasons, tuple(factors))
