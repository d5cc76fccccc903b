"""Where an approved pull request would be merged on its forge, read from a snapshot."""

from dataclasses import dataclass

from ingest.transaction import Rows

PLACE = """
select r.knot, r.repo_key, r.name, o.did as owner, a.pds as author_pds, coalesce(p.target_branch, m.head) as branch
from pull_requests p join repositories r using (repository_id)
left join contributors o on o.contributor_id = r.owner_id
left join contributors a on a.contributor_id = p.author_id
left join mirrors m on m.repository_id = p.repository_id
where p.pull_uri = ?
"""


@dataclass(frozen=True, slots=True)
class MergePlace:
    """The knot, repository and branch, and the host of the author's data server."""

    knot: str
    repository: str
    name: str
    owner: str
    branch: str
    author_pds: str


def merge_place(rows: Rows, uri: str) -> MergePlace | None:
    """Where to merge a pull request; None where one part of it is not known."""
    row = rows.row(PLACE, [uri])
    if row is None or not all(row.values()):
        return None
    pds = row["author_pds"].removeprefix("https://")
    return MergePlace(row["knot"], row["repo_key"], row["name"], row["owner"], row["branch"], pds)


def data_server(rows: Rows, did: str) -> str | None:
    """The host of a person's data server; None where it is not known."""
    origin = rows.value("select pds from contributors where did = ?", [did])
    return origin.removeprefix("https://") if origin else None
