"""Under which names and addresses an account's own commits came so far, to tell them from those of other people."""

from collections.abc import Iterator
from pathlib import Path

from ingest.patches import PatchProblem, load_patch
from ingest.transaction import Rows
from scoring.content.change import Mail
from scoring.content.limits import Limits
from scoring.content.reading import read_change
from scoring.content.submission import Account

SERIES = 5  # merged ones that are looked at, the newest: about 1 ms each
LIMITS = Limits(size=200_000, seconds=0.2)  # of each
# What somebody who may push took in: an author alone cannot add an address to those that count as theirs.
MERGED = """
select k.sha256 from pull_requests p
join pull_requests own on own.pull_uri = $pull and own.author_id = p.author_id
join watched_repositories w on w.repository_id = p.repository_id
join patches k on (k.pull_uri, k.patch_ref) = (p.pull_uri, p.patch_ref)
where p.pull_uri <> $pull and p.state = 'merged' and p.merge_proof = 'verified' and k.sha256 is not null
order by p.merged_at desc nulls last, p.pull_uri limit $series
"""
PERSON = """
select did, handle from contributors where contributor_id = (select author_id from pull_requests where pull_uri = ?)
"""


def own_account(rows: Rows, folder: Path, pull_uri: str) -> Account | None:
    """The author of a pull request as known here; None where nobody is.

    Neither a Tangled record nor a DID document holds an e-mail address. So names and addresses are those of the commits
    in the author's newest merged series, as far as one address wrote all of a series: of several nobody can say which
    is the account's. Nothing of it is stored. `folder` holds the patches.
    """
    person = rows.row(PERSON, [pull_uri])
    if person is None:
        return None
    mails = [mail for row in rows.rows(MERGED, {"pull": pull_uri, "series": SERIES}) for mail in _alone(row, folder)]
    names, emails = (dict.fromkeys(filter(None, texts)) for texts in zip(*mails, strict=True)) if mails else ({}, {})
    return Account(person["did"], person["handle"], tuple(names), tuple(emails))


def _alone(row: dict[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    """(name, address) of a series that one address wrote; nothing of any other, or of one not kept any more."""
    try:
        mails: tuple[Mail, ...] = read_change(load_patch(folder, row["sha256"]), LIMITS).mails
    except PatchProblem:
        return
    if len({mail.email.lower() for mail in mails}) == 1:
        yield mails[0].author, mails[0].email
