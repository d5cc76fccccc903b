"""What the scores of one snapshot share: read once, since planning these statements takes longer than a score."""

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from ingest.snapshot import Snapshot
from ingest.transaction import Rows
from scoring.audit_answers import SEALED
from scoring.derived import display_name
from scoring.kept import PerSnapshot
from scoring.read_repositories import in_shadow
from scoring.shaping import People, read_settled
from scoring.verdict import Person

MOST_MET = 50_000  # people: some 15 MB
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
    on_paths: dict[int, Person] = field(default_factory=dict)  # the names met so far: most paths lead over the same

    def met(self, rows: Rows, numbers: Set[int]) -> Mapping[int, Person]:
        """Names for these numbers, asked for once a snapshot."""
        known = {number: person for number in numbers if (person := self.on_paths.get(number))}
        unknown = numbers - known.keys()
        found = People(rows, unknown).persons if unknown else {}
        if len(self.on_paths) + len(found) > MOST_MET:
            self.on_paths.clear()
        self.on_paths.update(found)
        return known | found


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
        shadowed=in_shadow(rows),
        settled=read_settled(rows),
        open_pulls=dict(pulls),
    )
