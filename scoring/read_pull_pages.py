"""Which pull request an address on the forge's own site means."""

import re
from urllib.parse import unquote, urlsplit

from ingest.transaction import Rows
from ingest.watch import find_repository

_PATH = re.compile(r"/@?([A-Za-z0-9.:_-]{1,253})/([A-Za-z0-9._-]{1,100})/pulls/([0-9]{1,9})(?:/.*)?")


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
