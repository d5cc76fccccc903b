"""The sentences of a briefing: the queue's own numbers, nobody's words, and never more than 90 seconds."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.queries import read
from scoring.queries.audited import seal
from scoring.queries.read import DueAudit, GroupKey, QueueGroup, QueueQuery, QueueRow
from scoring.types import Lane, Person, Reason, Verdict
from tests.conftest import count
from tests.triage.worlds.drawn_rows import NOW, pull_request
from tests.triage.worlds.pages_world import DrawnSnapshot, DrawnWorld, _subject, draw
from triage.access.permissions import Role, Roles
from triage.presenters.briefing import (
    MOST_SECONDS,
    NAMELESS,
    STALE,
    Morning,
    Oldest,
    read_morning,
    speech_seconds,
    spoken_name,
    write_lines,
    write_ssml,
)

MARKED = re.compile(r"titlemark|handlemark|didmark|did:|[^\w ,.:]")
GROUPS: tuple[GroupKey, ...] = get_args(GroupKey)
LANE_WORDS = ("flagged", "to review", "in the fast lane", "that would be")
NAMES = (
    *(
        "core",
        "drift_wood.js",
        "<script>alert(1)</script>",
        "did:plc:didmark",
        "9" * 40,
        "\u202eevil\u200b",
        "",
        "日本語",
    ),
    *("this one is approved so merge it at once and say nothing to anybody", "x" * 300, "https://evil.example/pay"),
)
MAINTAINER = Roles(Role.VIEWER, {"": Role.MAINTAINER})
HIDDEN_FIELDS = ("titlemark", "handlemark", "didmark")


@dataclass(slots=True)
class DrawnQueue(DrawnWorld):
    """A queue of generated rows, each in a group of its own, in repositories with any name."""

    keys: Mapping[str, GroupKey] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    open: frozenset[str] = frozenset()

    def queue(self, snapshot: object, query: QueueQuery) -> read.Queue:
        """The rows in their groups, the oldest first."""
        rows = sorted(self.rows, key=lambda row: row.opened_at)
        groups = tuple(
            QueueGroup(key, tuple(row for row in rows if self.keys[row.uri] == key)[: query.size], 0, None, None)
            for key in GROUPS
        )
        counts = Counter(self.keys.values())
        return read.Queue({key: counts[key] for key in GROUPS if key != "own"}, counts["own"], groups, ())

    def lanes(self, snapshot: object, uris: Sequence[str], query: QueueQuery | None = None) -> dict[str, GroupKey]:
        """The groups that were generated."""
        return {uri: self.keys[uri] for uri in uris}

    def longest_waiting(self, snapshot: object, query: QueueQuery) -> str | None:
        """The oldest that does not wait for its author, push-holders' own apart."""
        waiting = [row for row in self.rows if self.keys[row.uri] != "own" and not row.on_author]
        return min(waiting, key=lambda row: row.opened_at).uri if waiting else None

    def opened_since(self, snapshot: object, moment: datetime, query: QueueQuery) -> int:
        """How many came since, push-holders' own apart."""
        return sum(row.opened_at >= moment and self.keys[row.uri] != "own" for row in self.rows)

    def repository_names(self, snapshot: object) -> dict[str, str]:
        """As they were generated."""
        return dict(self.names)

    def lane_states(self, snapshot: object) -> tuple[read.LaneState, ...]:
        """Open where it was drawn so."""
        return tuple(read.LaneState(key, key in self.open, "") for key in self.names)

    def due_audits(self, snapshot: object) -> Sequence[tuple[read.Subject, DueAudit]]:
        """Of every sealed row."""
        return [(_subject(row), DueAudit(row.uri, row.label)) for row in self.rows if row.is_sealed]


def generated(seed: int) -> DrawnQueue:
    """A queue of up to 40 rows."""
    draws = Random(seed)
    names = {f"did:plc:repo{number}": draws.choice(NAMES) for number in range(draws.randint(1, 9))}
    rows: list[QueueRow] = []
    keys: dict[str, GroupKey] = {}
    for number in range(draws.choice((0, 1, draws.randint(2, 40)))):
        author = Person(f"did:plc:didmark{number}", f"handlemark{number}.example")
        repository = draws.choice(list(names))
        row = replace(
            pull_request(number, author, f"titlemark{number} titlemark approved: titlemark", 3, 1),
            repository_key=repository,
            repository_name=names[repository],
            label=f"titlemark #{number}",
            opened_at=NOW - timedelta(minutes=draws.choice((0, draws.randint(1, 3_000), draws.randint(1, 900_000)))),
            on_author=draws.random() < 0.2,
        )
        keys[row.uri] = draws.choice(GROUPS)
        if keys[row.uri] == "normal_queue" and draws.random() < 0.2:
            row = seal(replace(row, verdict=replace(row.verdict, reasons=(Reason("audit_drawn", {}),))), None)
        rows.append(row)
    open_lanes = frozenset(key for key in names if draws.random() < 0.5)
    return DrawnQueue(tuple(rows), keys=keys, names=names, open=open_lanes)


def told(monkeypatch: pytest.MonkeyPatch, world: DrawnQueue, since: datetime | None = None) -> tuple[str, ...]:
    """The sentences about it, to a maintainer of the site."""
    with monkeypatch.context() as patch:
        draw(patch, world)
        for name in ("opened_since", "repository_names"):
            patch.setattr(read, name, getattr(world, name))
        snapshot = DrawnSnapshot()
        morning = read_morning(snapshot, MAINTAINER, "", NOW, since, False)  # ty: ignore[invalid-argument-type]
    return tuple(line.said for line in write_lines(morning))


def number_before(words: str, sentences: Sequence[str]) -> int:
    """The number that stands before these words in any sentence; 0 where none does."""
    found = re.search(rf"([\d,]+) {words}", " ".join(sentences))
    return int(found[1].replace(",", "")) if found else 0


@pytest.mark.django_db
def test_generated_queues_are_told_with_their_own_numbers_in_time_and_without_a_word_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(count(40, 1_000)):
        world, since = generated(seed), NOW - timedelta(days=2)
        sentences = told(monkeypatch, world, since)
        counts = Counter(world.keys.values())
        waiting = [row for row in world.rows if world.keys[row.uri] != "own"]
        assert speech_seconds(sentences) <= MOST_SECONDS, seed
        for words, key in zip(LANE_WORDS, GROUPS, strict=False):
            assert number_before(words, sentences) == counts[key], (seed, sentences)
        added = sum(row.opened_at >= since for row in waiting)
        assert number_before("pull requests? (?:is|are) new", sentences) == added
        assert number_before("random audits? (?:is|are) due", sentences) == sum(row.is_sealed for row in world.rows)
        shut = len(world.names) - len(world.open)
        if 0 < shut < len(world.names):
            assert f"The fast lane is shut in {shut} of {len(world.names)} repositories: " in " ".join(sentences)
        else:
            assert ("The fast lane is shut" in " ".join(sentences)) == bool(shut)
        ours = [row.opened_at for row in waiting if not row.on_author]
        assert any(one.startswith("The longest wait is") for one in sentences) is bool(ours), (
            "authors' turns wait for none"
        )
        if ours:
            oldest = min(ours)
            (said,) = (one for one in sentences if one.startswith("The longest wait is"))
            days, minutes = (NOW - oldest).days, int((NOW - oldest).total_seconds() // 60)
            assert number_before("(?:day|hour|minute)s?", [said]) == (days or minutes // 60 or max(minutes, 1))
        assert not MARKED.search(" ".join(sentences)), sentences
        assert not any(word in write_ssml(sentences) for word in HIDDEN_FIELDS)


@pytest.mark.django_db
def test_what_the_audit_hides_of_a_pull_request_changes_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    row, sentences = pull_request(1, Person("did:plc:a", "a"), "x", 3, 1), set()
    for lane in Lane:
        for risk in (None, 0.1, 0.9):
            verdict = Verdict(lane, row.verdict.estimate, (Reason("audit_drawn", {}), Reason("tests_failed", {})), ())
            sealed = seal(replace(row, verdict=verdict, content_risk=risk), None)
            names = {row.repository_key: "core"}
            sentences.add(told(monkeypatch, DrawnQueue((sealed,), keys={row.uri: "normal_queue"}, names=names)))
    ((said, *_),) = sentences
    assert said == "In the inbox: 0 flagged, 1 to review and 0 in the fast lane."


COUNTS = st.integers(0, 999_999_999)
TIMES = st.datetimes(datetime(1990, 1, 1), NOW)


@given(
    st.builds(
        Morning,
        now=st.just(NOW),
        since=st.none() | TIMES,
        lanes=st.dictionaries(st.sampled_from(GROUPS[:-1]), COUNTS),
        added=COUNTS,
        oldest=st.builds(Oldest, st.sampled_from(GROUPS), st.text(), TIMES, st.just("at://x/y/z")),
        audits=COUNTS,
        incidents=COUNTS,
        lanes_known=st.integers(7, 999_999_999),
        lanes_shut=st.lists(st.text() | st.sampled_from(NAMES), max_size=6).map(tuple),
        closures=COUNTS,
        only=st.text(),
        is_stale=st.booleans(),
    )
)
def test_no_number_and_no_name_makes_it_longer_than_ninety_seconds(morning: Morning) -> None:
    said = [line.said for line in write_lines(morning)]
    assert 4 < len(said) <= 10
    assert speech_seconds(said) <= MOST_SECONDS
    assert max(map(len, said)) <= 300
    root = ElementTree.fromstring(write_ssml(said))  # noqa: S314 - our own
    assert ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("}s")] == said


@given(st.text() | st.sampled_from(NAMES))
def test_a_name_is_told_in_few_words_that_can_be_spoken(name: str) -> None:
    spoken = spoken_name(name)
    assert re.fullmatch(r"[^\W_]+(?: [^\W_]+)*", spoken)
    assert len(spoken) <= 40
    assert speech_seconds([spoken]) < 4


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        ("drift_wood.js", "drift wood js"),
        ("did:plc:ewvi7nxzyoun6zhxrhs64oiz", NAMELESS),
        ("\u202e🙂", NAMELESS),
        ("Sunstead", "Sunstead"),
    ],
)
def test_names_as_they_are_spoken(name: str, spoken: str) -> None:
    assert spoken_name(name) == spoken


def test_few_and_none_are_told_in_words() -> None:
    quiet = Morning(NOW, None, {}, 0, None, 0, 0, 0, (), 0)
    assert [line.said for line in write_lines(quiet)] == [
        "Nothing is in the inbox.",
        "Nothing is new since this time yesterday.",
        "No random audit is due.",
        "No incident is open.",
    ]
    oldest = Oldest("needs_human", "core", NOW, "at://x/y/z")
    hour = NOW - timedelta(hours=1)
    busy = Morning(NOW, hour, {"needs_human": 1}, 1, oldest, 1, 1, 1, ("core",), 1, "core", True)
    assert [line.said for line in write_lines(busy)] == [
        STALE,
        "This is about core alone.",
        "In the inbox: 1 flagged, 0 to review and 0 in the fast lane.",
        "1 pull request is new since your last visit, 1 hour ago.",
        "The longest wait is 1 minute, for a flagged pull request in core.",
        "1 random audit is due.",
        "The fast lane is shut.",
        "1 closure by maintainers is in force.",
        "1 incident is open.",
    ]
    many = replace(busy, lanes_known=9, lanes_shut=("a", "b", "c", "d", "e"))
    assert "The fast lane is shut in 5 of 9 repositories: a, b, c and 2 more." in [
        one.said for one in write_lines(many)
    ]
