"""Signs a visitor in as a maintainer in one click, where nothing real is at stake: in the demo and a served replay."""

from dataclasses import dataclass

from django.conf import settings

from ingest.store.transaction import Rows
from scoring.queries import read
from triage.models import Maintainer, Person
from trustsite.settings import is_loopback

# Of those who own a watched repository or may push to it, the one on whom most open pull requests wait.
BUSIEST = """
with waiting as (
  select repository_id, count(*) as open_pulls from pull_requests where state = 'open' group by repository_id
)
select c.did, list(r.repo_key order by r.repo_key) as keys, sum(coalesce(w.open_pulls, 0))::integer as open_pulls
from own_people o join contributors c using (contributor_id) join repositories r using (repository_id)
left join waiting w using (repository_id)
group by c.did order by open_pulls desc, count(*) filter (r.owner_id = o.contributor_id) desc, c.did limit 1
"""


@dataclass(frozen=True, slots=True)
class Busiest:
    """The person on whom most open pull requests wait: `open_pulls`, in the repositories with these keys."""

    did: str
    keys: tuple[str, ...]
    open_pulls: int


def busiest(rows: Rows) -> Busiest | None:
    """Return the owner or push-holder of watched repositories on whom most waits; None where none is known."""
    found = rows.row(BUSIEST)
    return Busiest(found["did"], tuple(found["keys"]), found["open_pulls"]) if found else None


def open_account(did: str, keys: list[str]) -> Person:
    """Return the maintainer's account on the site, made as `manage.py add_maintainer` makes it."""
    person, _ = Person.objects.get_or_create(did=did)
    for key in keys:
        Maintainer.objects.get_or_create(person=person, repo_key=key)
    return person


def offer_busiest(rows: Rows) -> str:
    """Let one click sign in as the busiest maintainer of a recording; returns a sentence for the person at the console.

    Nobody can sign in so where BIND is reached from outside this machine. The web's tables must exist.
    """
    if not is_loopback(settings.BIND):
        return f"one-click sign-in is off, because BIND={settings.BIND} is reached from outside this machine"
    found = busiest(rows)
    if found is None:
        return "one-click sign-in is off, because the recording names nobody with push access"
    open_account(found.did, list(found.keys))
    settings.DEMO_MAINTAINER = found.did
    names = read.repository_names(rows)
    return (
        f"sign in there as {name_of(rows, found.did)} in one click, who maintains "
        f"{', '.join(names[key] for key in found.keys)} ({found.open_pulls:,} open)"
    )


def name_of(rows: Rows, did: str) -> str:
    """Return the name under which somebody is shown."""
    found = read.score(rows, did)
    return found.person.name if found else "the maintainer"
