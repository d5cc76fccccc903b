"""How contributors are judged, one or many at once, now or as it stood, read from a snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ingest.transaction import Rows
from ingest.watch import find_repository
from scoring.answers import ContributorScore
from scoring.derived import display_name
from scoring.explain import told_reasons
from scoring.explain_plain import plain_sentence
from scoring.gate import decide_person
from scoring.own_rules import thresholds_under
from scoring.score_ground import Ground, score_ground
from scoring.score_told import NOT_REACHED, contributor_score, told_scores, worded_scores
from scoring.shaping import (
    People,
    read_thresholds,
    read_verdict,
    verdict_evidence,
)
from scoring.verdict import Person, Verdict

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
    """How a contributor is judged from a repository's seeds, or from the site's; None where one of the two is unknown.

    `repository`: its DID, the at-uri of its record, or OWNER/NAME.
    """
    number, ground, known = _asked(rows, [did], repository)
    if number is None or not known:
        return None
    found = [row for person in known for row in _reached(rows, person, number)]
    judged = [(row, read_verdict(row)) for row in found] or _elsewhere(rows, list(known), number, ground)
    return next(iter(worded_scores(rows, judged, known, ground)), None)


def scores(rows: Rows, dids: Sequence[str], repository: str | None = None) -> dict[str, ContributorScore]:
    """The same for many, by DID, in a number of statements that does not grow with them; the unknown are left out.

    How trust reaches them is only in the explanation: `path` is empty, `distance` None. It saves a third of the CPU.
    """
    number, ground, known = _asked(rows, dids, repository)
    if number is None or not known:
        return {}
    people = sorted(known)
    found = _current(rows, people, number)
    told = told_scores(rows, found, known, ground)
    if number and (others := sorted(set(people) - {row["contributor_id"] for row in found})):
        judged = [({**row, **NOT_REACHED}, verdict) for row, verdict in _elsewhere(rows, others, number, ground)]
        told += worded_scores(rows, judged, known, ground)
    return {one.person.did: one for one in told}


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
    """What is wrong with the account of somebody who is shown to nobody for now; None for everybody else."""
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
    rows: Rows, people: Sequence[int], number: int, ground: Ground
) -> list[tuple[Mapping[str, Any], Verdict]]:
    """The rows of ELSEWHERE, each with its verdict; none at the site, where everybody has a judgement of their own."""
    if not number:
        return []
    found = rows.rows(ELSEWHERE, [number, people])
    met = ground.met(rows, {person for row in found for person in row["path"]})
    return [(row, _judge_elsewhere(row, tuple(met[person] for person in row["path"]))) for row in found]


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
