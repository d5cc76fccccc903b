"""Find commits that name another author than the sending account: for maintainers only, see scoring.scanners.run.

An account is known by its handle and by the names and addresses of its merged work. A commit's author is a claim that
anybody can write: another name is a reason to look, an equal name proves nothing.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from ingest.git.patch import PatchProblem, load_patch
from ingest.store.transaction import Rows
from scoring.diff.change import Mail
from scoring.diff.parser import Limits, read_change
from scoring.scanners.submission import Account, Submission
from scoring.types import Finding, Severity

SCANNER = "commit_author"
PEOPLE = 3  # different addresses in one series, from which they are not one person with several
MAILS = 1_000  # examined mails of one series
# Addresses that a forge generates to hide the real one, or that nobody chose.
MADE_UP_HOSTS = ("noreply.github.com", "noreply.codeberg.org", "noreply.tangled.org", "noreply.gitea.io", "localhost")
MADE_UP_ENDINGS = (".local", ".localdomain", ".invalid", ".example", ".test", "example.com", "example.org", "(none)")
BOTS = ("[bot]", "dependabot", "renovate", "pre-commit-ci", "github-actions")


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield at most one finding: commits by other people (med), by two people, or only under another name (low).

    Where no name and address of the account are known, a single author may be the account; of several authors all but
    one are certainly somebody else.
    """
    account, mails = submission.knowledge.account, submission.change.mails[:MAILS]
    if account is None or not mails:
        return
    yield from _strangers(mails, account) if account.emails or account.names else _several(mails)


def _strangers(mails: Sequence[Mail], account: Account) -> Iterator[Finding]:
    strangers = [mail for mail in mails if not _is_known(mail, account)]
    by_address = [mail for mail in strangers if account.emails and not _is_made_up(mail.email)]
    if len({_address(mail.email) for mail in by_address}) >= PEOPLE:
        yield _finding("several-people", Severity.MED, "The series holds commits of several other people.")
    elif any(not _same_name(mail, account) for mail in by_address):
        yield _finding("other-person", Severity.MED, "A commit names another person as its author than the account.")
    elif any(not _same_name(mail, account) for mail in strangers):
        yield _finding("other-name", Severity.LOW, "A commit names its author otherwise than the account is known.")


def _several(mails: Sequence[Mail]) -> Iterator[Finding]:
    """Judge a series by itself: people who share neither an address nor two parts of a name."""
    people: list[tuple[set[str], frozenset[str]]] = []
    for mail in mails:
        address, name = _address(mail.email), _name(mail.author)
        if any(bot in f"{mail.author} {mail.email}".lower() for bot in BOTS):
            continue
        person = next(
            (
                candidate
                for candidate in people
                if address in candidate[0] or candidate[1] == name or len(candidate[1] & name) >= 2
            ),
            None,
        )
        if person is not None:
            person[0].add(address)
        elif len(people) < PEOPLE:
            people.append(({address}, name))
    if len(people) >= PEOPLE:
        yield _finding("several-people", Severity.MED, "The series holds commits of several people.")
    elif len(people) == 2:
        yield _finding(
            "two-people", Severity.LOW, "The series has commits by two people; one of them is not the account."
        )


def _finding(rule: str, severity: Severity, message: str) -> Finding:
    """Build the finding without name and address: it is displayed, and neither was verified."""
    return Finding(SCANNER, rule, "other", severity, message)


def _is_known(mail: Mail, account: Account) -> bool:
    """Return whether the address is the account's, or a generated one with its handle or name."""
    address = _address(mail.email)
    if address in {_address(known) for known in account.emails}:
        return True
    if any(bot in f"{mail.author} {mail.email}".lower() for bot in BOTS):
        return False
    return _is_made_up(mail.email) and (_carries_handle(address, account) or _same_name(mail, account))


def _is_made_up(email: str) -> bool:
    host = _address(email).rpartition("@")[2]
    return not host or host.endswith(MADE_UP_ENDINGS) or host in MADE_UP_HOSTS or "noreply" in email.lower()


def _carries_handle(address: str, account: Account) -> bool:
    local = address.partition("@")[0].rpartition("+")[2]
    handle = (account.handle or "").lower()
    return bool(local) and local in {handle, handle.partition(".")[0]}


def _same_name(mail: Mail, account: Account) -> bool:
    """Return whether the name is the account's, in any order of its parts, or its handle; unknown names differ."""
    name = _name(mail.author)
    handle = (account.handle or "").lower()
    known = {_name(known_name) for known_name in (*account.names, handle, handle.partition(".")[0])} - {frozenset()}
    return any(name == known_name or (len(name & known_name) >= 2) for known_name in known)


def _name(text: str) -> frozenset[str]:
    """Return the parts of a name without case, accents and punctuation."""
    plain = unicodedata.normalize("NFKD", text[:200]).casefold()
    letters = "".join(letter if letter.isalnum() else " " for letter in plain if not unicodedata.combining(letter))
    return frozenset(letters.split())


def _address(email: str) -> str:
    """Return the address as mail servers compare it, without the part after a plus at a real host."""
    local, _, host = email[:320].strip().strip("<>").lower().rpartition("@")
    return f"{local if 'noreply' in host else local.partition('+')[0]}@{host}"


SERIES = 5  # newest merged pull requests that are read: about 1 ms each
LIMITS = Limits(size=200_000, seconds=0.2)  # of each
# Patches merged by somebody who may push: an author alone cannot add an address to their own.
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
    """Return the author of a pull request as known here; None where unknown.

    Neither a Tangled record nor a DID document has an e-mail address. So names and addresses are those of the commits
    in the author's newest merged series, where one address wrote the whole series: of several nobody can say which is
    the account's. None of it is stored. `folder` holds the patches.
    """
    person = rows.row(PERSON, [pull_uri])
    if person is None:
        return None
    mails = [mail for row in rows.rows(MERGED, {"pull": pull_uri, "series": SERIES}) for mail in _alone(row, folder)]
    names, emails = (dict.fromkeys(filter(None, texts)) for texts in zip(*mails, strict=True)) if mails else ({}, {})
    return Account(person["did"], person["handle"], tuple(names), tuple(emails))


def _alone(row: dict[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, address) of a series that one address wrote; nothing for any other, or for one no longer stored."""
    try:
        mails: tuple[Mail, ...] = read_change(load_patch(folder, row["sha256"]), LIMITS).mails
    except PatchProblem:
        return
    if len({mail.email.lower() for mail in mails}) == 1:
        yield mails[0].author, mails[0].email
