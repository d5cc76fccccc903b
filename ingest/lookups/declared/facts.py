"""Facts from beyond the forge, as rows of `signals`: written and withdrawn with what they rest on.

They are about people and repositories, are shown to people, and enter no model, no trust and no lane.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ingest.clock import DAY
from ingest.lookups.engine import Found, Note, Row
from ingest.store.database import Store
from ingest.store.transaction import Transaction

WEEK = timedelta(days=7)
KEPT = WEEK + DAY  # a look-up that is due after a week has a day to succeed before its answer goes
CLAIM, LINK, DOCUMENT, REPOSITORY = "keytrace", "link", "document", "repository"
NPM, CRATES, PYPI = "npm", "crates.io", "pypi"
SCORECARD, GITHUB = "scorecard", "github"
REGISTRIES = (NPM, CRATES, PYPI, SCORECARD, GITHUB)
ASKED = (CLAIM, LINK, REPOSITORY, *REGISTRIES)  # sources whose facts are looked up here
# The look-up that brings the facts of each source.
LOOK_UPS = dict.fromkeys((CLAIM, LINK), "declared") | {REPOSITORY: "footprint"}
LOOK_UPS |= dict.fromkeys((NPM, CRATES, PYPI), "registry") | dict.fromkeys((SCORECARD, GITHUB), "upstream")
MUTUAL, CLAIMED = "mutual", "claimed"

# A rewritten claim counts again once it is proven again.
WITHDRAWN = f"""
from signals s where source = '{CLAIM}' and not exists (
  from account_claims k where k.uri = s.evidence_uri and k.deleted_at is null and k.status = 'verified'
    and k.changed_at <= s.observed_at
) or source = '{LINK}' and not exists (
  from profiles p join contributors c on c.contributor_id = p.author_id
  where c.did = s.subject and p.deleted_at is null and contains(p.links, '"' || s.key || '"')
) and not exists (from signals d where d.source = '{DOCUMENT}' and d.subject = s.subject and d.key = s.key)
or source = '{CLAIM}' and not list_contains($signers::varchar[], value) or source in {ASKED} and expires_at <= $wall
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """One row of `signals` (ingest/store/schema/3_pulls.sql); `evidence` is the address that shows it."""

    source: str
    key: str
    value: str
    evidence: str | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts on one subject. Old rows stay if nobody answered about their source, key or evidence: `unanswered`."""

    found: tuple[Fact, ...]
    unanswered: frozenset[str] = frozenset()

    def leaves(self, row: Row) -> bool:
        """Return True if a stored row is still the last that is known."""
        is_found = any((fact.source, fact.key) == (row["source"], row["key"]) for fact in self.found)
        return not is_found and not self.unanswered.isdisjoint((row["source"], row["key"], row["evidence_uri"]))


def note_facts(facts: Facts) -> Note:
    """Return when to ask again: after a week, or soon if somebody did not answer."""
    if not facts.unanswered:
        return Note(WEEK)
    return Note(doubt=f"no answer about {', '.join(sorted(facts.unanswered))}"[:300], unfinished=True)


def withdraw_all(store: Store, sources: Sequence[str] = ASKED) -> int:
    """Delete every fact of these sources, since the operator has switched them off; return how many.

    That they were asked for goes too: switched on again, they are asked for at once. What npm and crates.io tell of
    packages that changes add is no such fact.
    """
    facts = f"from signals where source in {tuple(sources)} and not starts_with(subject, 'pkg:')"
    asked = "from fetches where list_contains(?, kind)"
    kinds = [list({LOOK_UPS[source] for source in sources})]
    with store.read() as rows:
        if not rows.value(f"select count(*) {facts}") and not rows.value(f"select count(*) {asked}", kinds):
            return 0
    with store.write() as txn:
        txn.execute(f"delete {asked}", kinds)
        return len(txn.rows(f"delete {facts} returning subject"))


def withdraw(store: Store, signers: Collection[str], wall: datetime) -> int:
    """Delete facts that expired, or whose claim or link was deleted, retracted or rewritten; return how many.

    So are claims by signers that are not among these.
    """
    params = {"wall": wall, "signers": list(signers)}
    with store.read() as rows:
        if not rows.value(f"select count(*) {WITHDRAWN}", params):
            return 0
    with store.write() as txn:
        sql = f"delete from signals where rowid in (select s.rowid {WITHDRAWN}) returning subject"
        return len(txn.rows(sql, params))


def write_facts(
    txn: Transaction, results: Sequence[Found[Facts]], sources: Sequence[str], now: datetime, wall: datetime
) -> None:
    """Replace the facts of these sources by what was found; an equal one keeps the time when it was first known.

    `now` is the present of records. Facts expire by the wall clock, by which they are asked about again. The subject
    has declared what they rest on, unless its row names an `owner`.
    """
    owners = {result.row["subject"]: result.row.get("owner") for result in results}
    answers = {result.row["subject"]: result.answer for result in results if isinstance(result.answer, Facts)}
    stored = txn.rows(
        "select * from signals where list_contains(?, source) and subject in (select unnest(?))",
        [list(sources), list(answers)],
    )
    known_from = {(row["subject"], row["source"], row["key"], row["value"]): row["known_from"] for row in stored}
    rows = [row for row in stored if answers[row["subject"]].leaves(row)]
    for subject, facts in answers.items():
        for fact in facts.found:
            first_known = known_from.get((subject, fact.source, fact.key, fact.value), now)
            times = {"observed_at": now, "known_from": first_known, "expires_at": wall + KEPT}
            rows.append(_signal_row(subject, owners[subject] or subject, fact) | times)
    txn.execute(
        "delete from signals where list_contains(?, source) and subject in (select unnest(?))",
        [list(sources), list(answers)],
    )
    txn.append("signals", rows)


def _signal_row(subject: str, declared_by: str, fact: Fact) -> dict[str, object]:
    names = {"subject": subject, "source": fact.source, "key": fact.key, "value": fact.value}
    return names | {"evidence_uri": fact.evidence, "declared_by": declared_by}
