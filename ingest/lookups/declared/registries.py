"""Ask registries of packages about the accounts that a person has proven to be theirs: since when, how many, how used.

Off unless the operator turns it on: asking tells the registry whom this site looks at. npm is asked about an account
that a claim proves, crates.io about a proven account of GitHub, by which people sign in there, and PyPI about a project
that a profile links and that names the person in turn. Each is asked once in seven days. Sources:
github.com/npm/registry/tree/main/docs; crates.io/data-access; docs.pypi.org/api/json.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from ingest.clock import SLACK, parse_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import USER_AGENT, Fetcher
from ingest.http.sockets import Order
from ingest.lookups.declared.facts import (
    CLAIM,
    CRATES,
    LINK,
    LOOK_UPS,
    MUTUAL,
    NPM,
    PYPI,
    Fact,
    Facts,
    note_facts,
    write_facts,
)
from ingest.lookups.declared.links import names_person, read_github_user
from ingest.lookups.engine import Due, Found, Kind, Row, Wall, fetch
from ingest.lookups.packages import OLDEST, Count
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction

KIND = LOOK_UPS[NPM]
SOURCES = (NPM, CRATES, PYPI)
ANSWER_LIMIT = 5_000_000  # bytes; documents of packages with thousands of versions are larger, and left out
LISTED = 250  # packages of an account that are counted
DETAILED = 3  # of these, the best known, whose age and downloads are asked for
# The page of each account that is proven or, for a project of PyPI, linked.
ACCOUNTS = f"""
select subject, 'https://www.npmjs.com/~' || substr(key, 5) as page
from signals where source = '{CLAIM}' and starts_with(key, 'npm:')
union select subject, 'https://crates.io/users/' || lower(substr(key, 8))
from signals where source = '{CLAIM}' and starts_with(key, 'github:')
union select subject, 'https://crates.io/users/' || lower(split_part(key, '/', 4))
from signals where source = '{LINK}' and value = '{MUTUAL}' and regexp_matches(key, '^https://(www[.])?github[.]com/')
union select subject, rtrim(key, '/')
from signals where source = '{LINK}' and starts_with(key, 'https://pypi.org/project/')
"""
WITHDRAWN = f"""
from signals where list_contains(?, source) and starts_with(subject, 'did:') and (subject, evidence_uri) not in (
  select (subject, page) from ({ACCOUNTS})
)
"""
DUE = f"""
select c.did as subject, if(c.handle_verified, lower(c.handle), null) as handle, c.did as payer, 0 as rank,
  f.due_clock as since, coalesce(f.attempts, 0) as attempts
from contributors c left join fetches f on f.kind = '{KIND}' and f.subject = c.did
where c.did in (select subject from ({ACCOUNTS})) and c.account_status <> 'deleted'
  and (f.subject is null or f.due_clock <= $wall)
"""
Answer = TypeVar("Answer")


class _Maintainer(msgspec.Struct):
    username: str = ""


class _Package(msgspec.Struct):
    name: str
    date: str = ""
    maintainers: list[_Maintainer] = []


class _Listed(msgspec.Struct):
    package: _Package


class _Search(msgspec.Struct):
    objects: list[_Listed]


class _Document(msgspec.Struct):
    time: dict[str, str] = {}


class _Downloads(msgspec.Struct):
    downloads: Count


class _CratesUser(msgspec.Struct):
    id: Count
    login: str
    avatar: str | None = None


class _CratesAnswer(msgspec.Struct):
    user: _CratesUser


class _Crate(msgspec.Struct):
    created_at: str = ""
    updated_at: str = ""
    downloads: Count = 0


class _Crates(msgspec.Struct):
    crates: list[_Crate]


class _Upload(msgspec.Struct):
    upload_time_iso_8601: str = ""


class _Info(msgspec.Struct):
    home_page: str | None = None
    project_urls: dict[str, str] | None = None


class _Project(msgspec.Struct):
    info: _Info
    releases: dict[str, list[_Upload]] = {}


@dataclass(frozen=True, slots=True)
class Registries:
    """The way to the registries; without a `contact` crates.io, which asks for one, is not asked.

    Times after `now` are left out of what they tell.
    """

    fetcher: Fetcher
    contact: str
    now: datetime

    def read_npm(self, account: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Yield what npm tells of an account, by key. Raises FetchProblem."""
        address = f"https://registry.npmjs.org/-/v1/search?text=maintainer:{quote(account, safe='')}&size={LISTED}"
        found = [one.package for one in self.fetcher.get_json(address, _Search, ANSWER_LIMIT).objects[:LISTED]]
        own = [package for package in found if any(person.username == account for person in package.maintainers)]
        if not own:
            return
        yield "packages", str(len(own))
        yield from _span((package.date for package in own), self.now, "", "newest")
        names_asked = [quote(package.name, safe="@") for package in own[:DETAILED]]
        documents = [self._ask_npm(f"registry.npmjs.org/{name}", _Document) for name in names_asked]
        yield from _span((one.time.get("created", "") for one in documents if one), self.now, "since", "")
        points = [self._ask_npm(f"api.npmjs.org/downloads/point/last-week/{name}", _Downloads) for name in names_asked]
        if counts := [one.downloads for one in points if one]:
            yield "downloads", str(sum(counts))

    def _ask_npm(self, address: str, shape: type[Answer]) -> Answer | None:
        """Ask about one package; None if there is no answer that can be read, as for one too new or too large."""
        try:
            return self.fetcher.get_json(f"https://{address}", shape, ANSWER_LIMIT)
        except FetchProblem as problem:
            if problem.retry or problem.closed:
                raise
            return None

    def read_crates(self, account: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Yield what crates.io tells of whoever signs in there with this account of GitHub. Raises FetchProblem.

        A name on GitHub can pass to somebody else: the picture's address holds the account's number, which cannot.
        """
        if not self.contact:
            return
        user = self._ask_crates(f"users/{account}", _CratesAnswer).user
        number = read_github_user(self.fetcher, account).id
        if user.login.lower() != account or not re.search(rf"/u/{number}(?:[?/]|$)", user.avatar or ""):
            return
        crates = self._ask_crates(f"crates?user_id={user.id}&per_page=100", _Crates).crates
        if not crates:
            return
        yield "packages", str(len(crates))
        yield from _span((crate.created_at for crate in crates), self.now, "since", "")
        yield from _span((crate.updated_at for crate in crates), self.now, "", "newest")
        yield "downloads", str(sum(crate.downloads for crate in crates))

    def _ask_crates(self, path: str, shape: type[Any]) -> Any:
        order = Order(agent=f"{USER_AGENT}; {self.contact}")
        return self.fetcher.get_json(f"https://crates.io/api/v1/{path}", shape, ANSWER_LIMIT, order)

    def read_pypi(self, project: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Yield what PyPI tells of a project that names the person among its own addresses. Raises FetchProblem."""
        found = self.fetcher.get_json(f"https://pypi.org/pypi/{project}/json", _Project, ANSWER_LIMIT)
        addresses = [found.info.home_page or "", *(found.info.project_urls or {}).values()]
        if not any(names_person(address, names) for address in addresses[:100]):
            return
        yield "packages", "1"
        uploads = [upload.upload_time_iso_8601 for release in found.releases.values() for upload in release[:1]]
        yield from _span(uploads, self.now, "since", "newest")


Read = Callable[[Registries, str, frozenset[str]], Iterator[tuple[str, str]]]
PAGES: tuple[tuple[str, re.Pattern[str], Read], ...] = (
    (NPM, re.compile(r"https://www\.npmjs\.com/~([A-Za-z0-9_-][A-Za-z0-9._-]{0,99})"), Registries.read_npm),
    (CRATES, re.compile(r"https://crates\.io/users/([a-z0-9][a-z0-9-]{0,38})"), Registries.read_crates),
    (PYPI, re.compile(r"https://pypi\.org/project/([A-Za-z0-9][A-Za-z0-9._-]{0,99})"), Registries.read_pypi),
)


def fetch_registries(store: Store, registries: Registries, wall: Wall) -> int:
    """Withdraw the facts on accounts that are not proven any more, and ask about those that are; return how many."""

    def write(txn: Transaction, results: Sequence[Found[Facts]]) -> None:
        write_facts(txn, results, SOURCES, registries.now, wall())

    kind = Kind(KIND, Due(DUE), lambda row: _ask(registries, row), write, note_facts, _add_accounts)
    return _withdraw(store) + fetch(store, registries.fetcher, wall, kind)


def _withdraw(store: Store) -> int:
    """Delete the facts on accounts that are not proven any more; return how many."""
    with store.read() as rows:
        if not rows.value(f"select count(*) {WITHDRAWN}", [list(SOURCES)]):
            return 0
    with store.write() as txn:
        return len(txn.rows(f"delete {WITHDRAWN} returning subject", [list(SOURCES)]))


def _add_accounts(rows: Rows, chosen: list[dict[str, Any]]) -> None:
    """Add to each person the pages of their accounts."""
    sql = f"select subject, list(page order by page) as pages from ({ACCOUNTS}) group by subject"
    pages = {row["subject"]: row["pages"] for row in rows.rows(sql)}
    for row in chosen:
        row["pages"] = pages.get(row["subject"], [])


def _ask(registries: Registries, row: Row) -> Facts:
    """Ask about one account at each registry; one that does not answer leaves the others as they are."""
    names = frozenset(name for name in (row["subject"].lower(), row["handle"]) if name)
    found: dict[str, list[Fact]] = {}
    unanswered: set[str] = set()
    for page in row["pages"]:
        source, account, read = _read_page(page)
        if read is None or found.get(source):
            continue
        try:
            found[source] = [Fact(source, key, value, page) for key, value in read(registries, account, names)]
        except FetchProblem as problem:
            if problem.closed:
                raise
            if problem.retry:
                unanswered.add(source)
    return Facts(tuple(fact for facts in found.values() for fact in facts), frozenset(unanswered))


def _read_page(page: str) -> tuple[str, str, Read | None]:
    for source, pattern, read in PAGES:
        if found := pattern.fullmatch(page):
            return source, found[1], read
    return "", "", None


def _span(moments: Iterable[str], now: datetime, first: str, last: str) -> Iterator[tuple[str, str]]:
    """Yield the first and the last of these times that can be, each under its key if it has one."""
    parsed = (parse_time(text) for text in moments)
    read = sorted(moment for moment in parsed if moment is not None and OLDEST <= moment <= now + SLACK)
    for key, moment in ((first, read[:1]), (last, read[-1:])):
        if key and moment:
            yield key, moment[0].isoformat()
