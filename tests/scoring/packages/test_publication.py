"""Age and downloads of packages that a change adds: said in the finding, and never a reason for a milder one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.http.fetcher import Fetcher
from scoring.packages.compare import comparisons
from scoring.packages.entry import Package
from scoring.packages.publication import MOST, Publication, packages_to_look_up, publications_in
from scoring.review.settings import learn_of_packages
from scoring.scanners import dependencies, typosquats
from scoring.scanners.submission import Knowledge
from scoring.types import Finding, Severity
from tests.ingest.lookups.advisory_services import AdvisoryServices
from tests.ingest.peer import Peer
from tests.pipeline import Result
from tests.scoring.diff.patched import change, patch, submission
from tests.scoring.offered import offer
from tests.scoring.small import OFFERED

SENT = datetime(2026, 11, 20, 12)
REQUIREMENTS = {"requirements.txt": ("flask==3.0\n", "flask==3.0\nrequestes2==1.0\n")}
NEAR = {"package.json": ('{"dependencies": {\n}}\n', '{"dependencies": {\n  "typscrpt": "1.0.0"\n}}\n')}
FIRST, VERSION = SENT - timedelta(days=3), SENT - timedelta(hours=5)
CONTACT = "mailto:ana@site.example"


def known(publication: Publication) -> Any:
    return lambda packages: [publication] * len(packages)


def found(files: dict[str, tuple[str, str]], publication: Publication = Publication()) -> list[Finding]:  # noqa: B008
    whole = submission(files, publications=known(publication))
    return [*typosquats.scan(whole), *dependencies.scan(whole)]


@pytest.mark.parametrize(
    ("publication", "words"),
    [
        (Publication(), ""),
        (Publication(SENT), ""),
        (Publication(SENT, FIRST, downloads=12), " (first published 3 days before this change, 12 downloads a week)"),
        (
            Publication(SENT, datetime(2014, 3, 2), VERSION),
            " (first published on 2014-03-02, this version less than a day before this change)",
        ),
        (Publication(SENT, FIRST, FIRST), " (first published 3 days before this change)"),
        (Publication(SENT, None, SENT - timedelta(days=1)), " (this version published 1 day before this change)"),
        (Publication(SENT, SENT + timedelta(hours=1)), " (first published after this change was sent)"),
        (Publication(SENT, downloads=4_000, days=90), " (4,000 downloads in 90 days)"),
        (Publication(SENT, downloads=1), " (1 download a week)"),
        (Publication(SENT, is_absent=True), " (not known to deps.dev)"),
        (Publication(SENT, failed=("its age", "its downloads")), " (its age and its downloads could not be looked up)"),
    ],
)
def test_the_facts_are_said_in_plain_words(publication: Publication, words: str) -> None:
    assert publication.in_words() == words


def test_a_look_alike_is_one_sentence_with_its_figures_and_its_distance() -> None:
    (near, *_) = found(NEAR, Publication(SENT, FIRST, downloads=12))
    figures = "first published 3 days before this change, 12 downloads a week"
    assert near.explanation == (
        f"typscrpt ({figures}) is new and is spelled nearly like typescript, two letters apart: "
        "see that it is the package that was meant."
    )


def test_a_young_look_alike_weighs_more_and_an_old_one_as_much_as_before() -> None:
    assert [one.severity for one in found(NEAR)][:1] == [Severity.MED]
    for days, severity in ((0, Severity.HIGH), (89, Severity.HIGH), (90, Severity.MED), (5_000, Severity.MED)):
        (near, *_) = found(NEAR, Publication(SENT, SENT - timedelta(days=days)))
        assert near.severity is severity


def test_a_young_package_alone_stays_a_light_finding_with_its_figures() -> None:
    files = {"Cargo.toml": ("[dependencies]\n", '[dependencies]\nwinter = "0.1.0"\n')}
    (new,) = found(files, Publication(SENT, FIRST, downloads=40, days=90))
    assert (new.rule, new.severity) == ("new_dependency", Severity.LOW)
    assert new.explanation.startswith("winter (first published 3 days before this change, 40 downloads in 90 days)")


MOMENTS = some.none() | some.datetimes(datetime(1995, 1, 1), SENT + timedelta(days=400))
PUBLICATIONS = some.builds(
    Publication,
    some.just(SENT),
    MOMENTS,
    MOMENTS,
    some.none() | some.integers(0, 10**12),
    some.sampled_from([7, 90]),
    some.booleans(),
    some.lists(some.sampled_from(["its age", "its downloads"]), max_size=2).map(tuple),
)
WEIGHTS = [Severity.LOW, Severity.MED, Severity.HIGH]


@given(publication=PUBLICATIONS, files=some.sampled_from([REQUIREMENTS, NEAR]), downloads=some.integers(0, 10**12))
def test_no_fact_removes_a_finding_or_makes_it_milder_and_downloads_change_no_weight(
    publication: Publication, files: dict[str, tuple[str, str]], downloads: int
) -> None:
    plain, told = found(files), found(files, publication)
    assert [one.rule for one in plain] == [one.rule for one in told]
    for before, after in zip(plain, told, strict=True):
        assert WEIGHTS.index(after.severity) >= WEIGHTS.index(before.severity)
    bought = found(files, replace(publication, downloads=downloads))
    assert [one.severity for one in bought] == [one.severity for one in told]


def test_few_packages_are_looked_up_and_look_alikes_cannot_be_crowded_out() -> None:
    many = "".join(f"honestname{letter}{letter}{letter}==1.0\n" for letter in "abcdefghijklmnop")
    lock = '[[package]]\nname = "transitive"\nversion = "1.0"\n'
    files = {"poetry.lock": ("", lock), "requirements.txt": ("", f"{many}reqeusts==2.0\n-e ./local\n")}
    chosen = packages_to_look_up(comparisons(change(files)))
    assert len(chosen) == MOST
    assert chosen[0] == Package("PyPI", "reqeusts", "2.0")
    assert "transitive" not in {package.name for package in chosen}


class Asked:
    """An open pull request that adds a package, and the services that know of it."""

    def __init__(self, result: Result, services: AdvisoryServices, fetcher: Fetcher) -> None:
        self.result, self.services, self.fetcher = result, services, fetcher
        sent_at: datetime = result.value("select seen_at from pull_requests where pull_uri = ?", [OFFERED])
        self.sent_at = sent_at
        offer(result, patch("package.json", *NEAR["package.json"]))
        version = {"publishedAt": f"{sent_at - timedelta(hours=5)}Z"}
        history = {"versions": [{"publishedAt": f"{sent_at - timedelta(days=3)}Z"}, version]}
        services.facts["/systems/npm/packages/typscrpt"] = history
        services.facts["/systems/npm/packages/typscrpt/versions/1.0.0"] = version
        services.downloads["api.npmjs.org", "typscrpt"] = 12

    def learn(self, advisories: bool = True, registries: bool = True) -> None:
        runtime: Any = SimpleNamespace(store=self.result.store, fetcher=self.fetcher, contact=CONTACT)
        runtime.ask_advisories, runtime.ask_registries = advisories, registries
        learn_of_packages(runtime, change(NEAR))

    def explanations(self) -> list[str]:
        with self.result.store.read() as rows:
            whole = submission(NEAR, publications=publications_in(rows, OFFERED))
            return [one.explanation for one in (*typosquats.scan(whole), *dependencies.scan(whole))]


@pytest.fixture(name="asked")
def asked_fixture(queued: Result) -> Iterator[Asked]:
    services = AdvisoryServices([])
    with Peer(services.answer) as peer:
        fetcher = Fetcher(peer.origin)
        yield Asked(queued, services, fetcher)
        fetcher.close()


def test_what_is_looked_up_stands_in_the_finding_of_the_pull_request(asked: Asked) -> None:
    asked.learn()
    times = "first published 3 days before this change, this version less than a day before this change"
    for sentence in asked.explanations():
        assert sentence.startswith(f"typscrpt ({times}, 12 downloads a week) is ")
    with asked.result.store.read() as rows:
        publications = publications_in(rows, OFFERED)
        asked.result.review(Knowledge(publications=publications))
    row = asked.result.pull(OFFERED)
    assert row is not None
    assert row.verdict.reasons[0].code == "high_flag"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda services: services.facts.clear(), "not known to deps.dev, 12 downloads a week"),
        (lambda services: services.downloads.clear(), "first published 3 days before this change"),
        (lambda services: services.faults.update({"api.npmjs.org": 503}), "its downloads could not be looked up"),
        (
            lambda services: services.faults.update({"api.deps.dev": 500}),
            "12 downloads a week, its age and the age of this version could not be looked up",
        ),
    ],
)
def test_what_could_not_be_looked_up_is_said(
    asked: Asked, spoil: Callable[[AdvisoryServices], None], words: str
) -> None:
    spoil(asked.services)
    asked.learn()
    assert all(words in sentence for sentence in asked.explanations())


@pytest.mark.parametrize("advisories", [True, False])
@pytest.mark.parametrize("registries", [True, False])
def test_each_host_is_asked_only_where_the_operator_allows_it(asked: Asked, advisories: bool, registries: bool) -> None:
    asked.learn(advisories, registries)
    paths = {line.split("/")[1] for line in asked.services.asked}
    assert paths == ({"v1", "v3"} if advisories else set()) | ({"downloads"} if registries else set())
    if not advisories and not registries:
        assert asked.explanations() == [one.explanation for one in found(NEAR)]
