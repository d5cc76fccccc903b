"""Facts on a package that a change adds: when it was published before the change, and how often it is downloaded.

Anybody can buy downloads, so they are shown and weigh nothing; the age only raises a finding.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ingest.clock import parse_time
from ingest.lookups.osv import package_url
from ingest.store.transaction import Rows
from scoring.formatting import things
from scoring.packages.compare import Comparison
from scoring.packages.entry import Package
from scoring.packages.typosquats import imitation, known_names

MOST = 10  # packages of a change that are looked up: at the one request a second of crates.io they take 10 s
YOUNG = timedelta(days=90)  # an older name was seen by its users, and by those who search registries for malware
SENT = """
select coalesce(min(r.seen_at), any_value(p.seen_at)) as sent_at
from pull_requests p left join pull_rounds r on (r.pull_uri, r.patch_ref) = (p.pull_uri, p.patch_ref)
where p.pull_uri = ?
"""
VALUES = """
select subject, key, arg_max(value, known_from) as value from signals
where subject in (select unnest(?::varchar[]))
  and key in ('published_at', 'first_published_at', 'downloads_7_days', 'downloads_90_days')
group by subject, key
"""
OUTCOMES = """
select subject, kind, outcome from fetches
where subject in (select unnest(?::varchar[])) and kind in ('package', 'package_history', 'downloads')
"""


@dataclass(frozen=True, slots=True)
class Publication:
    """Facts on one package, as far as they are known; `sent_at` is the time of the change that adds it.

    `downloads` are those of so many days. `is_absent`: deps.dev knows no such package. `failed` names the facts that
    could not be looked up.
    """

    sent_at: datetime | None = None
    first_at: datetime | None = None
    version_at: datetime | None = None
    downloads: int | None = None
    days: int = 7
    is_absent: bool = False
    failed: tuple[str, ...] = ()

    @property
    def is_young(self) -> bool:
        """Return whether the package was first published less than YOUNG before the change, or after it."""
        return self.sent_at is not None and self.first_at is not None and self.sent_at - self.first_at < YOUNG

    def in_words(self) -> str:
        """Return the facts in brackets behind a space, "" if there are none."""
        words = ", ".join(self._words())
        return f" ({words})" if words else ""

    def _words(self) -> Iterator[str]:
        if self.is_absent:
            yield "not known to deps.dev"
        first, version = self._time_in_words(self.first_at), self._time_in_words(self.version_at)
        if first:
            yield f"first published {first}"
        if version and version != first:
            yield f"this version {version}" if first else f"this version published {version}"
        if self.downloads is not None:
            count = things(self.downloads, "download")
            yield f"{count} a week" if self.days == 7 else f"{count} in {self.days} days"
        if self.failed:
            yield f"{' and '.join(self.failed)} could not be looked up"

    def _time_in_words(self, moment: datetime | None) -> str:
        if moment is None or self.sent_at is None:
            return ""
        days = (self.sent_at - moment).days
        if days < 0:
            return "after this change was sent"
        if days >= YOUNG.days:
            return f"on {moment:%Y-%m-%d}"
        return f"{things(days, 'day') if days else 'less than a day'} before this change"


Publications = Callable[[Sequence[Package]], Sequence[Publication]]


def no_publications(packages: Sequence[Package]) -> Sequence[Publication]:
    return [Publication()] * len(packages)


def packages_to_look_up(files: Sequence[Comparison]) -> list[Package]:
    """Return at most MOST packages that a change adds.

    Names like a known one come first and lock files last, so that nobody can crowd a name out with others.
    """
    ranked: list[tuple[tuple[bool, bool], Package]] = []
    for file in files:
        known = known_names(file.format.ecosystem, {})
        for entry in file.new():
            if entry.source == "registry":
                rank = imitation(entry.name, known) is None, file.format.is_lock
                ranked.append((rank, Package(file.format.ecosystem, entry.name, entry.version or entry.floor)))
    by_name: dict[tuple[str, str], Package] = {}
    for _, package in sorted(ranked, key=lambda item: item[0]):
        by_name.setdefault((package.ecosystem, package.name), package)
    return list(by_name.values())[:MOST]


def publications_in(rows: Rows, pull_uri: str) -> Publications:
    """Return the function that reads the facts on packages which this pull request adds."""
    sent_at = rows.value(SENT, [pull_uri])
    return lambda packages: find_publications(rows, packages, sent_at) if sent_at else no_publications(packages)


def find_publications(rows: Rows, packages: Sequence[Package], sent_at: datetime) -> list[Publication]:
    """Return the stored facts on each package, in the order of `packages`."""
    urls = [_urls(package) for package in packages]
    subjects = sorted({url for pair in urls for url in pair})
    values = {(row["subject"], row["key"]): row["value"] for row in rows.rows(VALUES, [subjects])}
    outcomes = {(row["subject"], row["kind"]): row["outcome"] for row in rows.rows(OUTCOMES, [subjects])}
    return [_publication(*pair, values, outcomes, sent_at) for pair in urls]


def _urls(package: Package) -> tuple[str, str]:
    """Return the package URLs without and with the version; "" for a name that no package can have."""
    try:
        whole = package_url(package.ecosystem, package.name)
        return whole, package_url(package.ecosystem, package.name, package.version) if package.version else ""
    except ValueError:
        return "", ""


def _publication(
    whole: str,
    version: str,
    values: Mapping[tuple[str, str], str],
    outcomes: Mapping[tuple[str, str], str],
    sent_at: datetime,
) -> Publication:
    week, quarter = values.get((whole, "downloads_7_days")), values.get((whole, "downloads_90_days"))
    facts = {
        "its age": ((whole, "package_history"), values.get((whole, "first_published_at"))),
        "the age of this version": ((version, "package"), values.get((version, "published_at"))),
        "its downloads": ((whole, "downloads"), week or quarter),
    }
    first_at, version_at, count = (value for _, value in facts.values())
    return Publication(
        sent_at=sent_at,
        first_at=parse_time(first_at) if first_at else None,
        version_at=parse_time(version_at) if version_at else None,
        downloads=int(count) if count else None,
        days=7 if week else 90,
        is_absent=outcomes.get((whole, "package_history")) == "absent" and first_at is None,
        failed=tuple(
            fact for fact, (look_up, value) in facts.items() if outcomes.get(look_up) == "failed" and value is None
        ),
    )
