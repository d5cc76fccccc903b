"""The line of a row is drawn once for all who are shown the same, and never for anybody who is shown something else."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from django.contrib.auth.models import AnonymousUser
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.snapshots import Snapshot
from scoring.explain.decided import CLAUSES, decided, explain
from scoring.gate.decide import ORDINARY, judge_change
from scoring.queries import read
from scoring.queries.audited import CHANCE_HIDDEN
from scoring.thresholds import Thresholds
from scoring.types import Estimate, Evidence, Lane, Prediction, Reason
from tests.sources import PROJECT
from tests.triage.worlds.drawn_rows import ANA, drawn_rows, pull_request
from tests.triage.worlds.pages_world import DrawnSnapshot
from triage.access.permissions import Role, Roles
from triage.forms.filters import QueueFilters
from triage.models import Action, Person
from triage.presenters.queue import row_actions, row_lines
from triage.presenters.queue.pills import Pill
from triage.presenters.queue.row_actions import RowActs, approvable_words, row_acts
from triage.presenters.queue.row_lines import RowLine, draw_line, row_line
from triage.presenters.queue.rows import Expanded, RowView, row_view, without_people
from triage.services.actions import Standing, summary

NOW = datetime(2026, 3, 2, 12)
ROW = drawn_rows()[1]
FAST = Pill("fast", "97 %", "Fast lane", "90\N{EN DASH}99", (90.0, 97.0, 99.0))
TEXT = st.text(max_size=8)


def view(now: datetime = NOW) -> RowView:
    return replace(row_view(ROW, now, QueueFilters()), pill=FAST)


def acts(may: bool = True, **changed: Any) -> RowActs:
    return replace(row_acts(None, ROW, Standing(), None, may, NOW.replace(tzinfo=UTC)), **changed)


LINE = row_line(view(), acts())._replace(state="you")
OTHERS: dict[str, Any] = {
    "is_open": True,
    "comments": 4,
    "alike": 2,
    "pill": replace(LINE.pill, interval="0.42\N{EN DASH}0.96"),
}


@pytest.mark.parametrize("field", RowLine._fields)
def test_lines_that_differ_in_anything_are_drawn_apart(field: str) -> None:
    line = LINE._replace(ci="passed", ci_words="passed")
    other = line._replace(**{field: OTHERS.get(field, "something else")})
    assert draw_line(line) != draw_line(other)
    assert draw_line(other) == row_lines._draw(other)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT), max_size=4))
def test_what_was_drawn_before_changes_no_line(told: list[tuple[str, str, str, str]]) -> None:
    for title, age, state, pick in told:
        line = LINE._replace(title=title, age=age, state=state, pick=pick)
        assert draw_line(line) == row_lines._draw(line)


@pytest.mark.parametrize("may", [True, False], ids=["maintainer", "reader"])
def test_what_stands_last_for_one_cause_says_that_first_and_any_other_row_what_decided_it(may: bool) -> None:
    def first_words(cause: Any, claim: str = "") -> str:
        place = read.Place(7, 9, cause, "risk", 2, 2, 1)
        return row_line(replace(view(), row=replace(ROW, place=place, claim=claim)), acts(may)).decided

    assert first_words("copy") == "Stands last: a copy of one of theirs"
    assert first_words("author", "merged, says its author") == "Stands last: only its author says merged"
    assert first_words("newest", "merged, says its author") == row_line(view(), acts(may)).decided
    assert {first_words(cause) for cause in ("need", "turn", "author")} == {row_line(view(), acts(may)).decided}


def test_a_line_names_three_labels_and_counts_the_rest_and_markup_in_them_stays_text() -> None:
    labels = ("<b>bug</b>", "docs", "size: small", "two", "more")
    item = replace(view(), row=replace(ROW, labels=labels))
    drawn = draw_line(row_line(item, acts()))
    assert "&lt;b&gt;bug&lt;/b&gt;, docs, size: small and 2 more" in drawn
    assert 'class="tag"' not in draw_line(row_line(view(), acts()))


def test_a_line_says_how_many_of_its_author_have_its_title() -> None:
    series = replace(view(), row=replace(ROW, alike=3))
    assert "<span>3 with this title</span>" in draw_line(row_line(series, acts()))
    assert "with this title" not in draw_line(row_line(view(), acts()))
    assert "with this title" not in draw_line(row_line(without_people(series), acts())), "that tells who sent both"


def test_a_line_names_the_pull_request_and_what_its_author_says_of_a_merge_that_nobody_confirms() -> None:
    item = replace(view(), label="lantern #214", row=replace(ROW, claim="author says merged, unconfirmed"))
    drawn = draw_line(row_line(item, acts()))
    assert '<bdi class="mono">lantern</bdi> <span class="mono">#214</span>' in drawn
    assert "; Author says merged, unconfirmed" in drawn, "the tooltip says it in full"
    assert "unconfirmed" not in draw_line(LINE)


def test_only_a_maintainer_sees_where_the_fast_lane_starts() -> None:
    maintainer, reader = (draw_line(row_line(view(), acts(may))) for may in (True, False))
    assert '<path class="start" d="M90 7' in maintainer
    assert 'class="start"' not in reader


def test_an_age_is_told_anew_once_it_is_another() -> None:
    line, later = (row_line(view(ROW.opened_at + timedelta(hours=hours)), acts()) for hours in (3, 4))
    assert "<span>3 h</span>" in draw_line(line)
    assert "<span>4 h</span>" in draw_line(later)


def test_nobody_is_shown_what_another_may_do_or_has_done() -> None:
    maintainer, reader = (draw_line(row_line(view(), acts(may))) for may in (True, False))
    assert 'type="checkbox"' in maintainer
    assert 'type="checkbox"' not in reader
    approved = draw_line(row_line(view(), acts(done="Approved by you", done_brief="approved")))
    assert (
        '<b aria-hidden="true" title="Approved by you.">approved</b><span class="unseen">Approved by you.' in approved
    )
    assert "Approved" not in draw_line(row_line(view(), acts()))


def test_the_first_state_stands_before_ci_in_a_word_and_the_others_after_it() -> None:
    act = acts(done="Assigned to you", done_brief="you", changed="changed after <i>ben</i> approved it", looked_at="x")
    line = row_line(replace(view(), row=replace(ROW, ci="failed", comments=2)), act)
    assert (line.state, line.more) == ("you", "changed looking")
    drawn = draw_line(line)
    places = [drawn.index(words) for words in (">you</b>", "✕ CI<", ">changed looking</b>", "2 comments")]
    assert places == sorted(places)
    assert "Assigned to you. Changed after &lt;i&gt;ben&lt;/i&gt; approved it. x." in drawn
    answered = row_line(view(), acts(changed="new since you asked for changes"))
    assert (answered.state, answered.told) == ("answered", "New since you asked for changes.")
    asked = row_line(view(), acts(done="Changes requested by you", done_brief="asked", is_asked=True))
    assert (asked.state, asked.told) == ("waiting", "Waiting on author.")
    replied = row_line(view(), acts(changed="its author answered"))
    assert (replied.state, replied.told) == ("answered", "Its author answered.")
    kinds = (Action.Kind.NOTE, Action.Kind.COMMENT, Action.Kind.NOTE, Action.Kind.ANSWER)
    written = tuple(Action(kind=kind, person=Person(did="did:plc:ben"), pull_uri=ROW.uri) for kind in kinds)
    noted = row_line(replace(view(), row=replace(ROW, comments=2)), acts(notes=written))
    assert (noted.comments, noted.state) == (3, "noted"), "a note for maintainers is no comment"
    own = (Action(kind=Action.Kind.COMMENT, person=Person(did=ROW.uri.split("/")[2]), pull_uri=ROW.uri),)
    assert row_line(view(), acts(notes=own)).comments == 0, "its author's own word is none"
    untouched = row_line(view(), acts())
    assert (untouched.state, untouched.more, untouched.told) == ("", "", "")


def test_the_head_of_the_fast_lane_counts_what_can_be_approved_and_says_what_keeps_the_rest() -> None:
    fast = [pull_request(number, ANA, f"Fix {number}", 5, 0) for number in range(6)]
    told = {row.uri: acts() for row in fast}
    assert approvable_words(fast, told) == ""
    told[fast[0].uri] = acts(done="Approved by you", is_approved=True)
    told[fast[1].uri] = acts(is_own=True)
    assert approvable_words(fast, told) == "4 can be approved: 1 approved already, 1 sent by you"
    failed = [*fast[:3], *(replace(row, ci="failed") for row in fast[3:5]), fast[5]]
    assert approvable_words(failed, told) == ("2 can be approved: 1 approved already, 1 sent by you, CI failed on 2")
    shut = [*failed, *(replace(row, ci="failed", shadow=True) for row in fast[4:])]
    assert approvable_words(shut, told).endswith(", CI failed on 2"), "a lane that is shut lets nothing through"
    assert approvable_words(fast[:2], told) == "None can be approved: 1 approved already, 1 sent by you"
    assert approvable_words(fast, {row.uri: acts(may=False) for row in fast}) == "", "who may not act is told nothing"


def test_the_template_of_a_line_is_given_the_line_and_names_nothing_else() -> None:
    """So nothing of a request or a viewer can stand in what is kept: neither a token of theirs nor an address."""
    source = (PROJECT / "templates/inbox/_row_line.html").read_text()
    named = re.findall(r"{{ (\w+)", source) + re.findall(r"{% (?:if|url '\w+') (\w+)", source)
    assert set(named) - {"inbox", "as"} == {"line"}
    assert "csrf_token" not in source


def test_a_line_is_drawn_once_and_a_long_one_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before = row_lines._kept_line.cache_info()
    for _ in range(3):
        draw_line(LINE._replace(title="drawn nowhere else"))
        draw_line(LINE._replace(title="long" * row_lines.LONGEST))
    after = row_lines._kept_line.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)
    assert after.currsize <= row_lines.KEPT


def test_a_line_shows_markup_as_text() -> None:
    hostile = "<script>alert(1)</script>"
    shown = draw_line(
        LINE._replace(title=hostile, decided=hostile, reason=hostile, repository=hostile, pick=f'"{hostile}')
    )
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") >= 4


@given(st.builds(QueueFilters, bucket=st.sampled_from(["", "own"]), text=TEXT, repository=TEXT, opened=TEXT), TEXT)
def test_the_address_of_a_row_is_that_of_the_view_with_it_open(filters: QueueFilters, uri: str) -> None:
    assert filters.opening(uri) == replace(filters, opened=uri).search()


@pytest.mark.django_db
def test_a_token_shows_nobody_a_button_whatever_its_person_may_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_actions, "changed_after", lambda snapshot: {})
    maintainer, now = Roles(held={"": Role.MAINTAINER}), NOW.replace(tzinfo=UTC)
    snapshot = cast(Snapshot, DrawnSnapshot())
    by_token = row_actions.acts_of(AnonymousUser(), maintainer, snapshot, [ROW], now)[ROW.uri]
    signed_in = row_actions.acts_of(Person.objects.create(did=ROW.author.did), maintainer, snapshot, [ROW], now)[
        ROW.uri
    ]
    assert (by_token.can_act, by_token.can_approve) == (False, False)
    assert signed_in.can_act


def test_a_hidden_chance_is_not_in_the_words_that_no_reason_has_either() -> None:
    record = Evidence(clean=41, not_clean=1, merged_here=41, settled_here=42)
    prediction = Prediction(Estimate(0.42, 0.2, 0.8, 42), (), "m")
    verdict = judge_change(record, None, ORDINARY, Thresholds(t_low=0.0), 0.55, 5.0, prediction)
    words, line = decided(verdict, record), explain(verdict, record)
    assert "42 %" in words, "the lane is shut, so only the clause tells the chance"
    row = replace(ROW, verdict=verdict, decided=words, decided_exact=words, sentence=line, own=False)
    hidden = read.hide_row(row, read.DueAudit("at://due", "core #7"))
    assert hidden.decided == hidden.decided_exact == CHANCE_HIDDEN
    assert "42 %" not in hidden.sentence


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("low_probability", ""),
        ("below_fast_lane", ""),
        ("low_probability", "Chance 62 %: none of 7 merged cleanly"),
        ("low_probability", "Chance 62 %: touches tests"),
    ],
)
def test_a_row_whose_chance_is_hidden_names_it_nowhere(code: str, said: str) -> None:
    told = Reason(code, {"probability": 0.62, "t_low": 0.3, "t_high": 0.75})
    words = said or CLAUSES[code](told.params)
    row = replace(ROW, decided=words, decided_exact="Chance 62 %, fast lane from 75 %", sentence=f"{words}; new here")
    row = replace(row, verdict=replace(ROW.verdict, lane=Lane.FAST_LANE, reasons=(told,)), own=False, shadow=False)
    hidden = read.hide_row(row, read.DueAudit("at://due", "core #7"))
    item = row_view(hidden, NOW, QueueFilters(), Expanded())
    line = row_line(item, acts(can_approve=True))
    assert (line.decided, line.reason) == (CHANCE_HIDDEN, f"{CHANCE_HIDDEN}; new here")
    assert item.judgement is not None
    shown = draw_line(line) + "".join((*item.judgement.reasons, item.judgement.interval))
    assert ("62" in shown, "75" in shown, "hidden</div>" in shown) == (False, False, True)
    assert item.judgement.interval == "Hidden until the audit of core #7 is answered."
    alone, both = summary([hidden]), summary([hidden, ROW])
    assert (alone.lowest, alone.expected_bad, alone.worst_bad, alone.hidden) == ("none", "0.0", "0.0", 1)
    assert both.expected_bad == summary([ROW]).expected_bad, "no figure tells the hidden chance"
