"""The pull request that an address means, and what anybody may know of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from ingest.transaction import Rows
from ingest.watch import find_repository
from scoring.objections import LEFT_OUT

_PATH = re.compile(r"/@?([A-Za-z0-9.:_-]{1,253})/([A-Za-z0-9._-]{1,100})/pulls/([0-9]{1,9})(?:/.*)?")
MOST = 20  # pull requests of one person that are shown
# One statement whatever there is: what is hidden takes as long as what never was.
HERE = f"""
select p.pull_uri, coalesce(r.name, r.repo_key) as name, g.number, p.seen_at, p.state,
  case when p.state <> 'open' then coalesce(p.state_at, p.changed_at) end as decided_at
from pull_requests p join repositories r using (repository_id) semi join watched_repositories using (repository_id)
join contributors c on c.contributor_id = p.author_id left join pull_pages g using (pull_uri)
anti join hidden_people h on h.contributor_id = p.author_id
where p.deleted_at is null and p.state <> 'abandoned' and p.author_id not in ({LEFT_OUT})
  and (p.pull_uri = $uri or (p.state = 'open' and $who in (c.did, if(c.handle_verified, lower(c.handle), null))))
order by p.seen_at desc, p.pull_uri limit {MOST}
"""


@dataclass(frozen=True, slots=True)
class Here:
    """A pull request as anybody is told of it: no title, no author, nothing that was judged.

    `since`: when this site first saw it. `decided_at` is None while it is open.
    """

    label: str  # as in the queue: "datasette #12", or the last five characters of the record key
    repository_name: str
    since: datetime
    state: str  # 'open', 'merged', 'closed'
    decided_at: datetime | None


def here(rows: Rows, address: str, who: str) -> tuple[Here, ...]:
    """The pull request at `address` (an at-uri or its page on the forge), or the open ones of `who`; newest first.

    `who` is a DID or a verified handle; "" for nobody, as `address` is for nothing. Left out are repositories that
    are not watched, and people who are hidden, erased or left out of the leaderboard. Nothing is fetched.
    """
    uri = address if address.startswith("at://") else pull_at(rows, address)
    found = rows.rows(HERE, {"uri": uri or "", "who": who})
    return tuple(_here(row["name"], row) for row in found)


def _here(name: str, row: Mapping[str, Any]) -> Here:
    label = f"{name} #{row['number']}" if row["number"] else f"{name} · {row['pull_uri'][-5:]}"
    return Here(label, name, row["seen_at"], row["state"], row["decided_at"])


def pull_at(rows: Rows, address: str) -> str | None:
    """The at-uri of the pull request whose page this is (https://HOST/OWNER/NAME/pulls/NUMBER); None where unknown.

    The host is not looked at: the page may be on a mirror of the forge's site. Nothing is fetched.
    """
    try:
        path = unquote(urlsplit(address).path)
    except ValueError:
        return None
    found = _PATH.fullmatch(path)
    number = find_repository(rows, f"{found[1]}/{found[2]}") if found else None
    if found is None or number is None:
        return None
    sql = (
        "select g.pull_uri from pull_pages g join pull_requests p using (pull_uri) "
        "where p.repository_id = ? and g.number = ?"
    )
    return rows.value(sql, [number, int(found[3])])
