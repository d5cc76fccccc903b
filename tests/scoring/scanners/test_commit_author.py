"""Commits of another person than the account, and that no reviewer ever learns of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.diff.change import Mail
from scoring.scanners import commit_author
from scoring.scanners.run import IDENTITY_RULES, without_identity
from scoring.scanners.submission import Account, Knowledge, Submission
from scoring.types import Finding, Severity
from tests.conftest import count
from tests.scoring.scanners.written import added_lines, change_of

ANA = Account("did:plc:ana", "ana.example.net", ("Ana María Núñez",), ("ana@quince.net",))


def mail(author: str, email: str) -> Mail:
    return Mail(author, email, "", "subject", "")


def rules(*mails: Mail, account: Account | None = ANA) -> list[tuple[str, str]]:
    submission = Submission(change_of(added_lines("x"), mails=mails), knowledge=Knowledge(account=account))
    return [(finding.rule, finding.severity.value) for finding in commit_author.scan(submission)]


@pytest.mark.parametrize(
    ("author", "email"),
    [
        ("Ana María Núñez", "ana@quince.net"),
        ("somebody", "ANA+git@Quince.net"),
        ("Nunez, Ana Maria", "ana@work.net"),
        ("ana", "123+ana@users.noreply.github.com"),
        ("Ana Maria Nunez", "root@laptop.local"),
        ("ana.example.net", "ana@else.net"),
    ],
)
def test_the_same_person_under_another_address_or_spelling_is_no_finding(author: str, email: str) -> None:
    assert rules(mail(author, email)) == []


def test_another_persons_commit_is_med() -> None:
    assert rules(mail("Mallory Rook", "mallory@rook.net")) == [("other-person", "med")]
    assert rules(mail("Ana María Núñez", "ana@quince.net"), mail("Mallory", "m@rook.net")) == [("other-person", "med")]


def test_another_name_without_a_real_address_is_low() -> None:
    assert rules(mail("Mallory Rook", "9+mallory@users.noreply.github.com")) == [("other-name", "low")]
    assert rules(mail("Mallory Rook", "root@localhost")) == [("other-name", "low")]


def test_a_series_of_many_people_is_med() -> None:
    others = [mail(f"Person {number}", f"p{number}@rook.net") for number in range(3)]
    assert rules(*others) == [("several-people", "med")]


NEW = Account("did:plc:new", "new.example.net")


def test_of_several_people_all_but_one_are_others_whoever_the_account_is() -> None:
    others = [mail(f"Person Number{number}", f"p{number}@rook.net") for number in range(3)]
    assert rules(*others, account=NEW) == [("several-people", "med")]
    assert rules(*others[:2], account=NEW) == [("two-people", "low")]


def test_one_person_with_two_addresses_or_two_spellings_is_one() -> None:
    same = [mail("Ana Núñez", "ana@quince.net"), mail("Nunez, Ana", "ana@work.net"), mail("ana", "ana@work.net")]
    assert rules(*same, account=NEW) == []
    assert rules(same[0], mail("renovate[bot]", "bot@renovate.example"), account=NEW) == []


@pytest.mark.parametrize("account", [None, Account("did:plc:new"), Account("did:plc:new", "new.example.net")])
def test_an_account_of_which_nothing_is_known_differs_from_nobody(account: Account | None) -> None:
    assert rules(mail("Mallory", "mallory@rook.net"), account=account) == []


def test_a_plain_diff_names_nobody() -> None:
    assert rules() == []


@settings(max_examples=count(20, 1000))
@given(st.text(max_size=30), st.text(max_size=30))
def test_no_name_or_address_is_repeated_in_a_finding(author: str, email: str) -> None:
    submission = Submission(
        change_of(mails=(mail(f"{author}zq7{author}", f"{email}zq7@x.net"),)), knowledge=Knowledge(account=ANA)
    )
    assert all("zq7" not in repr(finding) for finding in commit_author.scan(submission))


def test_a_reviewer_gets_no_finding_that_rests_on_who_somebody_is() -> None:
    telling = [Finding(scanner, rule, "other", Severity.MED, "x") for scanner, rule in IDENTITY_RULES]
    plain = Finding("dangerous", "a", "security", Severity.LOW, "x", quote="line")
    other = Finding("near_duplicates", "like-known-bad", "slop", Severity.MED, "x", quote="at://did:plc:mallory/p/1")
    assert [(one.rule, one.quote) for one in without_identity([*telling, plain, other])] == [
        ("a", "line"),
        ("like-known-bad", ""),
    ]


def test_every_finding_of_this_scanner_is_kept_from_reviewers() -> None:
    played = [
        rules(mail("M", "m@rook.net")),
        rules(mail("M R", "root@localhost")),
        rules(*(mail(f"P {n}", f"p{n}@rook.net") for n in range(3))),
        rules(mail("P", "p@rook.net"), mail("M", "m@rook.net"), account=NEW),
    ]
    assert {(commit_author.SCANNER, rule) for found in played for rule, _ in found} == IDENTITY_RULES
