"""From rows of scores to what is told of their people; what says the same of several is worded once a snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ingest.snapshot import Snapshot
from ingest.transaction import Rows
from scoring.answers import ContributorScore
from scoring.explain import explain
from scoring.kept import PerSnapshot
from scoring.score_ground import Ground
from scoring.shaping import read_verdict, verdict_evidence, with_settled
from scoring.verdict import Person, Verdict

NOT_REACHED: Mapping[str, Any] = {"distance": None, "path": [], "path_merges": []}
MOST_ALIKE = 2_000  # judgements of one snapshot: some 8 kB each
DECIDED = """
select pull_uri, lane, probability, low, high, cases, reasons, factors from current_decisions where pull_uri in ({uris})
"""
_alike = PerSnapshot[ContributorScore](MOST_ALIKE)


def told_scores(
    rows: Rows, found: Sequence[Mapping[str, Any]], known: Mapping[int, Person], ground: Ground
) -> list[ContributorScore]:
    """The scores of these rows of current_scores, in any order, without how trust reaches them.

    Of a snapshot those that say the same of different people share a `likeness`, and their words.
    """
    told, new = [], []
    for row in found:
        likeness = _likeness(row, ground) if isinstance(rows, Snapshot) else None
        alike = _alike.peek(rows, likeness) if isinstance(rows, Snapshot) and likeness else None
        if alike:
            told.append(replace(alike, person=known[row["contributor_id"]]))
        else:
            new.append(({**row, **NOT_REACHED, "likeness": likeness}, read_verdict(row)))
    made = worded_scores(rows, new, known, ground)
    for one in made:
        if one.likeness and isinstance(rows, Snapshot):
            _alike.keep(rows, one.likeness, one)
    return [*told, *made]


def _likeness(row: Mapping[str, Any], ground: Ground) -> tuple[object, ...] | None:
    """All that a row says but of whom; None where an open pull request speaks for the person too."""
    if _newest_pull(ground, row):
        return None
    return tuple(value for name, value in row.items() if name != "contributor_id")


def worded_scores(
    rows: Rows, judged: Sequence[tuple[Mapping[str, Any], Verdict]], known: Mapping[int, Person], ground: Ground
) -> tuple[ContributorScore, ...]:
    """The judgements as shown, in a number of statements that does not grow with them."""
    others = {person for row, _ in judged for person in row["path"]} - known.keys()
    people = {**known, **ground.met(rows, others)}
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
