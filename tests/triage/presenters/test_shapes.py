"""Shapes of pages as pure functions: ages, pills, bars, charts, views as URLs, contrast of tokens (WCAG 2.2)."""

import re
import unicodedata
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as draw_from

from scoring.config.policy import Policy
from scoring.formatting import percent
from scoring.models.registry import SHRUNK_RATE
from scoring.queries import read
from scoring.queries.queue import LANE_KEYS
from scoring.queries.read import Bin, Dashboard, HistoryPoint, Person
from scoring.queries.types import Record, VouchLine
from scoring.types import Estimate, Factor, Lane, Reason, Verdict
from tests.sources import PROJECT
from tests.triage.worlds.drawn_rows import MARA, NOW, drawn_rows
from tests.triage.worlds.drawn_rows import judged as shown_judgement
from tests.triage.worlds.pages_world import DrawnWorld
from triage.charts import histogram
from triage.forms import filters
from triage.presenters import contributor, rights
from triage.presenters import text as words
from triage.presenters.queue import pills, rows

BOARD: Dashboard = DrawnWorld().dashboard(None)
TOKENS = (PROJECT / "static/css/tokens.css").read_text()


def bare(shown: pills.Pill) -> pills.Pill:
    """A pill without its interval."""
    return replace(shown, interval="", track=None)


def verdict_of(lane: Lane, probability: float | None) -> Verdict:
    return Verdict(
        lane, Estimate(probability, 0.2, 0.9, 4), (Reason("is_seed", {}), Reason("track_record", {"cases": 5})), ()
    )


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (timedelta(days=3, hours=5), "3 days"),
        (timedelta(hours=1, minutes=59), "1 hour"),
        (timedelta(minutes=2), "2 minutes"),
        (timedelta(seconds=59), "just now"),
        (timedelta(days=-4), "just now"),
    ],
)
def test_an_age_is_one_figure(age: timedelta, said: str) -> None:
    assert words.age_words(NOW - age, NOW) == said


@pytest.mark.parametrize(
    ("lag", "tone", "said"),
    [
        (3, "live", "Live, 3 s behind"),
        (60, "live", "Live, 60 s behind"),
        (61, "late", "Late, 1 min behind"),
        (600, "late", "Late, 10 min behind"),
        (601, "stopped", "Out of date, last event 10 minutes ago"),
        (-30, "live", "Live, 0 s behind"),
    ],
)
def test_freshness_says_in_words_what_its_colour_says(lag: int, tone: str, said: str) -> None:
    fresh = words.freshness(NOW - timedelta(seconds=lag), NOW, recorded=False)
    assert (fresh.tone, fresh.words) == (tone, said)


def test_a_recording_is_called_one_and_an_empty_store_too() -> None:
    assert words.freshness(NOW, NOW, recorded=True).words == "Recording, up to 12 Mar 2026"
    assert words.freshness(None, NOW, recorded=False).words == "No data yet"


@given(draw_from.text())
def test_what_cannot_be_seen_never_reaches_a_page(text: str) -> None:
    kinds = {unicodedata.category(character) for character in words.visible(text).replace("\u200d", "")}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def test_a_joiner_inside_an_emoji_stays_and_elsewhere_does_not() -> None:
    assert words.visible("👩\u200d💻") == "👩\u200d💻"
    assert words.visible("ad\u200dmin") == "ad⟨U+200D⟩min"


def test_a_pill_rounds_down_so_that_it_never_looks_like_a_threshold_it_missed() -> None:
    assert bare(pills.pill(verdict_of(Lane.NORMAL_QUEUE, 0.8999))) == pills.Pill("review", "89 %", "Review")


def test_in_shadow_mode_a_pill_says_what_the_lane_would_be_and_a_flag_stays_a_flag() -> None:
    assert bare(pills.pill(verdict_of(Lane.FAST_LANE, 0.93), True)) == pills.Pill("would", "93 %", "Would be fast lane")
    assert pills.pill(verdict_of(Lane.NEEDS_HUMAN, 0.1), True) == pills.pill(verdict_of(Lane.NEEDS_HUMAN, 0.1))
    assert pills.pill(verdict_of(Lane.NORMAL_QUEUE, 0.7), True) == pills.pill(verdict_of(Lane.NORMAL_QUEUE, 0.7))


def test_not_enough_evidence_has_no_number_and_a_flag_stays_a_flag_without_one() -> None:
    assert bare(pills.pill(verdict_of(Lane.NORMAL_QUEUE, None))) == pills.Pill("unknown", "", "No score yet")
    flagged = replace(verdict_of(Lane.NEEDS_HUMAN, None), reasons=(Reason("high_flag", {}),))
    assert bare(pills.pill(flagged)) == pills.Pill("flag", "", "Flagged")


@pytest.mark.parametrize("code", ["attestation_expired", "attestation_missing"])
def test_a_person_is_asked_in_neutral_words_where_nothing_was_found(code: str) -> None:
    asked = replace(verdict_of(Lane.NEEDS_HUMAN, 0.6), reasons=(Reason(code, {}), Reason("track_record", {"cases": 5})))
    assert bare(pills.pill(asked)) == pills.Pill("person", "60 %", "For a person")
    found = replace(asked, reasons=(*asked.reasons, Reason("content_risk_high", {})))
    assert bare(pills.pill(found)) == pills.Pill("flag", "60 %", "Flagged")
    drawn = render_to_string("judgement/_pill.html", {"pill": pills.pill(found)})
    assert "Flagged <small>· stays clean 60 %" in drawn, "60 % are not the chance of being bad"


def test_the_tint_of_an_avatar_follows_the_did_and_not_the_name() -> None:
    one = rows.person_view(Person("did:plc:a", "ana.example"))
    assert one.tint == rows.person_view(Person("did:plc:a", "other")).tint
    assert one.initials == "AN"
    assert rows.person_view(Person("did:plc:a", "\u202e")).initials == "U2"
    assert 0 <= one.tint < rows.TINTS


def judged(probability: float | None, *effects: float | None) -> Verdict:
    known = tuple(Factor("clean", index, effect) for index, effect in enumerate(effects))
    return Verdict(Lane.NORMAL_QUEUE, Estimate(probability, 0.0, 1.0, 9), (), known)


@given(draw_from.lists(draw_from.floats(0, 1), min_size=1, max_size=9))
def test_the_start_and_the_points_of_all_factors_add_up_to_the_chance_as_shown(chances: list[float]) -> None:
    steps = [after - before for before, after in pairwise(chances)]
    verdict = judged(chances[-1], *steps, None)
    told = rows.judgement(verdict, (), True)
    name, start, chance, _ = told.ends
    assert (chance, int(start[:-2])) == (percent(chances[-1]), pytest.approx(100 * chances[0], abs=1.001))
    points = [int(bar.effect.replace("\N{MINUS SIGN}", "-").split()[0]) for bar in told.bars]
    assert int(start[:-2]) + sum(points) == int(chance[:-2])
    exact = sorted(steps, key=lambda step: -abs(step))
    assert all(abs(shown - 100 * step) < 2 for shown, step in zip(points, exact, strict=True))
    assert name == ("Where everybody starts" if sum(map(bool, steps)) < 8 else "The start, with smaller factors")
    assert rows.judgement(judged(None, 0.1), (), True).ends == ()


@given(draw_from.lists(draw_from.one_of(draw_from.none(), draw_from.floats(-1, 1, allow_nan=False)), max_size=8))
def test_factor_bars_stay_on_their_track_and_on_their_side(effects: list[float | None]) -> None:
    bars = rows.factor_bars(judged(None, *effects))
    assert len(bars) == len(effects)
    for bar in bars:
        assert bar.x >= 0
        assert bar.x + bar.width <= rows.BAR_WIDTH + 0.1
        assert bar.sign != "up" or bar.x == rows.BAR_WIDTH / 2
        assert bar.sign != "down" or bar.x + bar.width == pytest.approx(rows.BAR_WIDTH / 2)


def test_a_factor_that_does_not_move_the_score_has_no_bar_and_no_effect() -> None:
    bar = rows.factor_bars(replace(judged(0.5), factors=(Factor("eigentrust", 0.0123, None),)))[0]
    assert (bar.sign, bar.effect, bar.value) == ("", "", "0.01")


def test_the_interval_is_said_with_what_it_rests_on() -> None:
    said = words.interval_sentence(Estimate(0.71, 0.601, 0.812, 1))
    assert said.startswith("About 71 % of changes like theirs stay clean (95 % interval 60\N{EN DASH}82, ")
    assert said.endswith(", from 1 settled pull request like theirs).")
    assert "Unknown is not bad" in words.interval_sentence(Estimate(None, 0, 1, 0))


def test_a_bar_stands_of_its_lanes_and_tells_who_may_not_know_thresholds_none() -> None:
    board = replace(BOARD, histogram=(Bin(0.8, 0.9, 10, 1, 3), Bin(0.9, 1.0, 0)))
    full, empty = histogram.histogram(board).bars
    assert [(part.tone, part.count) for part in full.parts] == [("flag", 1), ("review", 6), ("fast", 3)]
    assert full.parts[0].y + full.parts[0].height == histogram.BASE
    assert full.parts[-1].y == full.y
    assert not empty.parts
    assert histogram.histogram_table(board).rows[0] == ("80 to 90 %", "10", "1", "6", "3")
    plain = replace(board, t_low=None, t_high=None)
    assert [part.tone for part in histogram.histogram(plain).bars[0].parts] == ["plain"]
    assert histogram.histogram_table(plain).rows[0] == ("80 to 90 %", "10")


def test_a_shut_fast_lane_draws_no_threshold() -> None:
    chart = histogram.histogram(replace(BOARD, t_high=None))
    assert [mark.words for mark in chart.marks] == ["flagged below 30 %"]
    assert "fast lane" not in chart.summary, "a repository may have an open lane of its own"
    assert histogram.histogram_table(replace(BOARD, t_high=None)).columns[1:] == ("Contributors", "Flagged")


def test_a_person_is_told_all_that_was_decided_and_a_maintainer_first_the_thing_that_lifts_the_chance() -> None:
    page = DrawnWorld().contributor(None, MARA.did)
    assert page is not None
    merged = page.pulls[1]
    refused = [replace(merged, state="closed", outcome="not merged", result="unmerged")] * 55
    own = rights.own_score(replace(page, pulls=(*page.pulls, *refused)))
    assert own.counts == "56 decided: 55 not merged, 1 clean. The newest 50 are listed."
    assert (len(own.past), own.past[0].line) == (50, merged)
    assert rights.own_score(page).counts == "", "one is listed, so nothing is left to count"
    verdict, _ = shown_judgement(1, 9, ())
    counted = replace(page.score, model_version=SHRUNK_RATE, verdict=verdict)
    flagged, *rest = contributor.changes(counted, None, Policy(), 0.9)
    assert flagged == ("2 more that stay clean", "30 %, no longer flagged for it")
    assert [what for what, _ in rest][:1] == ["One revert or fix"]
    verdict, _ = shown_judgement(9, 1, ())
    (what, then), *_ = contributor.changes(replace(counted, verdict=verdict), None, Policy(), 0.9)
    assert re.fullmatch(r"\d+ more that stay clean", what)
    assert then == "90 %, where the lane starts"
    assert next(contributor.changes(replace(counted, verdict=verdict), None, Policy(), None))[0] == "One revert or fix"


def test_a_single_contributor_is_still_a_bar_that_can_be_seen() -> None:
    bins = (Bin(0.0, 0.1, 1), Bin(0.1, 0.2, 100_000), Bin(0.2, 0.3, 0))
    heights = [histogram.BASE - bar.y for bar in histogram.histogram(replace(BOARD, histogram=bins)).bars]
    assert heights == [2.0, histogram.BASE - histogram.TOP, 0.0]


@given(draw_from.tuples(*[draw_from.integers(0, 10_000)] * 4))
def test_lane_shares_fill_the_whole_bar(counts: tuple[int, int, int, int]) -> None:
    shares = histogram.lane_shares(dict(zip(LANE_KEYS, counts, strict=True)))
    assert [share.count for share in shares] == list(counts)
    assert sum(share.width for share in shares) == pytest.approx(100 if sum(counts) else 0, abs=0.01)
    assert shares[2].x == pytest.approx(shares[0].width + shares[1].width, abs=0.01)


def test_a_score_history_needs_two_scores_with_a_number_and_says_where_the_lane_begins() -> None:
    points = [HistoryPoint(NOW, value, 0.2, 0.9, Lane.NORMAL_QUEUE) for value in (None, 0.5)]
    assert contributor.score_history(points, None) is None
    later = HistoryPoint(datetime(2026, 5, 1), 0.8, 0.5, 0.95, Lane.NORMAL_QUEUE)
    drawn = contributor.score_history([later, *points], 0.88)
    assert drawn is not None
    assert drawn.summary == (
        "Share that stays clean went from 50 % (20\N{EN DASH}90) on 12 Mar 2026 to 80 % (50\N{EN DASH}95) on 1 May 2026"
    )
    assert "lane from 88 %" in [label.words for label in drawn.labels]


TIMES = ("2026-11-20T09:00", "2026-11-20T09:00Z", "20261120", "2026-02-30")
PAGES = draw_from.sampled_from(["", "1", "7", "10000"])


@given(
    draw_from.dictionaries(draw_from.sampled_from(["bucket", "q", "sort", "repository", "open"]), draw_from.text()),
    draw_from.one_of(draw_from.text(), draw_from.datetimes().map(str), draw_from.sampled_from(TIMES)),
    PAGES,
)
def test_any_query_string_gives_a_view_whose_own_url_gives_the_same_view(
    values: dict[str, str], since: str, page: str
) -> None:
    view = filters.read_queue(values | {"new": since, "page": page})
    assert view.opened_since is None or view.opened_since.tzinfo is None
    again = filters.read_queue(dict(parse_qsl(view.search().removeprefix("?"))))
    assert replace(again, notes=()) == replace(view, notes=())
    assert not again.notes


@given(draw_from.dictionaries(draw_from.sampled_from(["sort", "order"]), draw_from.text()), PAGES)
def test_any_leaderboard_url_gives_a_view_whose_own_url_gives_the_same_view(values: dict[str, str], page: str) -> None:
    view = filters.read_leaderboard(values | {"page": page})
    again = filters.read_leaderboard(dict(parse_qsl(view.search().removeprefix("?"))))
    assert replace(again, notes=()) == replace(view, notes=())


def token(name: str, theme: int) -> str:
    found = re.search(rf"--{name}: light-dark\((#\w{{6}}), (#\w{{6}})\)", TOKENS)
    assert found is not None, name
    return found[1 + theme]


def luminance(colour: str) -> float:
    """WCAG 2.2 relative luminance of #rrggbb."""
    parts = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_initials_can_be_read_on_each_tint(theme: int) -> None:
    css = (PROJECT / "static/css/components.css").read_text()
    ((saturation, lightness, opacity),) = re.findall(r"hsl\(var\(--hue\) (\d+)% (\d+)% / (\.\d+)\)", css)
    hues = [int(hue) for hue in re.findall(r"\.tint-\d+ \{ --hue: (\d+); \}", css)]
    assert len(hues) == rows.TINTS
    for hue in hues:
        tint = from_hsl(hue, int(saturation), int(lightness))
        for ground in ("surface", "canvas", "sunken"):
            paper = laid_over(tint, token(ground, theme), float(opacity))
            assert contrast(token("ink", theme), paper) >= 4.5, hue


def laid_over(colour: str, ground: str, opacity: float) -> str:
    """#rrggbb of a colour that lets some of the ground through."""
    parts = ((int(one[index : index + 2], 16) for one in (colour, ground)) for index in (1, 3, 5))
    return "#" + "".join(f"{round(opacity * upper + (1 - opacity) * under):02x}" for upper, under in parts)


def from_hsl(hue: int, saturation: int, lightness: int) -> str:
    """#rrggbb of a colour in CSS's hsl()."""
    spread = saturation / 100 * min(lightness / 100, 1 - lightness / 100)
    offsets = ((channel + hue / 30) % 12 for channel in (0, 8, 4))
    values = (lightness / 100 - spread * max(-1, min(offset - 3, 9 - offset, 1)) for offset in offsets)
    return "#" + "".join(f"{round(255 * value):02x}" for value in values)


# 34,000 before phones got a bar at the bottom, the parts of a pull request and actions behind More, without scripts;
# 41,000 before an undo that is pressed before the answer was kept for it.
def test_own_css_and_javascript_stay_under_42_kilobytes() -> None:
    files = [path for folder in ("css", "js") for path in (PROJECT / "static" / folder).iterdir()]
    assert sum(path.stat().st_size for path in files) < 41_600


CSS = {path.stem: path.read_text() for path in (PROJECT / "static" / "css").glob("*.css")}
COLOURS = re.findall(r"--([\w-]+): light-dark\(#\w{6}, #\w{6}\)", CSS["tokens"])
PAPERS = ("canvas", "surface", "sunken")
INKS = ("ink", "ink-2", "ink-3", "link")
LANES = ("fast", "review", "flag")
TEXT = [*((ink, paper) for ink in INKS for paper in PAPERS), *((lane, f"{lane}-soft") for lane in LANES)]
TEXT += [(lane, paper) for lane in LANES for paper in PAPERS]
TEXT += [("canvas", "ink"), ("surface", "link")]  # a toast, and the primary button
# The row that is open.
TEXT += [(ink, "accent-soft") for ink in ("ink", "ink-2", "link", *LANES)]
# The ring of the focus, borders of fields and buttons, bars and marks of charts, also on a note and a pill.
MARKS = [
    (mark, paper) for mark in ("link", "ink-3", *LANES) for paper in (*PAPERS, *(f"{lane}-soft" for lane in LANES))
]
MARKS += [("canvas", "ink")]
# A line only separates: what it stands between has an edge or a heading of its own.
ONLY_SEPARATES = {"line"}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_marks_can_be_seen_on_everything_that_they_stand_on(theme: int) -> None:
    pairs = [(pair, 4.5) for pair in TEXT] + [(pair, 3.0) for pair in MARKS]
    measured = {pair: (contrast(*(token(name, theme) for name in pair)), least) for pair, least in pairs}
    assert {pair: round(value, 2) for pair, (value, least) in measured.items() if value < least} == {}


def test_no_colour_is_left_out() -> None:
    assert set(COLOURS) - {name for pair in (*TEXT, *MARKS) for name in pair} - ONLY_SEPARATES == set()


def test_colours_stand_in_the_tokens_alone() -> None:
    others = " ".join(text for name, text in CSS.items() if name != "tokens")
    assert re.findall(r"#[0-9a-f]{3,8}\b(?![^{]*\{)", others) == []


def test_what_only_would_be_fast_lane_stands_apart_and_is_not_counted_with_what_can_be_approved() -> None:
    row = next(one for one in drawn_rows() if one.verdict.lane is Lane.FAST_LANE and not one.own)
    listed = (row, replace(row, uri="at://b"), *(replace(row, uri=f"at://{n}", shadow=True) for n in "cde"))
    groups = (
        read.QueueGroup("fast_lane", listed[:2], 2, NOW, None),
        read.QueueGroup("would_be_fast_lane", listed[2:], 5, NOW, None),
    )
    queue = read.Queue({"fast_lane": 2, "would_be_fast_lane": 5}, 0, groups, ())
    shown = [
        (one.bucket, one.title, one.count, len(one.rows), one.rest)
        for one in rows.group_views(queue, filters.QueueFilters(), NOW)
    ]
    assert shown == [("fast_lane", "Fast lane", 2, 2, 0), ("would_be_fast_lane", "Would be fast lane", 5, 3, 2)]
    assert [(one.bucket, one.count) for one in rows.tiles(queue)] == [
        ("", 7),
        ("needs_human", 0),
        ("normal_queue", 0),
        ("fast_lane", 2),
        ("would_be_fast_lane", 5),
    ], "the lanes add up to the first"
    assert [one.bucket for one in rows.tiles(read.Queue({"fast_lane": 2}, 0, groups, ()))][3:] == ["fast_lane"]
    (alone,) = rows.group_views(queue, filters.QueueFilters(bucket="fast_lane"), NOW)
    assert (alone.bucket, alone.count) == ("fast_lane", 2)
    assert [(one.title, one.count) for one in histogram.lane_shares(queue.counts)][2:] == [
        ("Fast lane", 2),
        ("Would be fast lane", 5),
    ]
    assert histogram.lane_now_words(queue.counts) == (
        "2 of 7 in the inbox are fast lane now. 5 more would be, where the lane is shut. None is flagged: no finding "
        "is high, no chance is low enough, and no maintainer warns about an author."
    )
    assert "None is flagged" not in histogram.lane_now_words({"needs_human": 1, "fast_lane": 2})


HOSTILE_WORDS = "\u202egpj</bdi><img src=x onerror=alert(1)>\x07\u200b" + "x" * 500


@pytest.mark.parametrize("proof", contributor.PROOFS)
def test_hostile_words_of_a_claim_stay_text_and_show_what_hides_in_them(proof: Any) -> None:
    told = read.Signal(HOSTILE_WORDS, proof, HOSTILE_WORDS, f"https://evil.example/{HOSTILE_WORDS}")
    shown, folded = contributor.signal_rows([told, replace(told, evidence=None)])
    page = render_to_string("people/_known.html", {"rows": shown})
    assert folded == ()
    assert "<img" not in page
    texts = re.sub(r'href="[^"]*"', "", page)  # read_signals gives no address in which anything hides
    assert not {"\x07", "\u200b", "\u202e"}.intersection(texts)
    assert "x" * 101 not in texts.partition("<td")[0]


@pytest.mark.parametrize(
    ("mutual", "words"),
    [
        (2, "and 1 more. Newest"),
        (3, "and 1 more. They vouch for 3 of these too."),
        (4, "They vouch for all 4 of these too."),
    ],
)
def test_vouches_in_return_are_told_from_three_on(mutual: int, words: str) -> None:
    now = datetime(2026, 11, 20)
    vouches = [
        contributor.VouchView(
            rows.person_view(Person(f"did:plc:{number}", f"fake-{number}")),
            VouchLine(Person(f"did:plc:{number}", f"fake-{number}"), "vouch", "", now, number < mutual),
            False,
            0.25,
        )
        for number in range(4)
    ]
    assert words in contributor.vouched_words(vouches, Record({"open": 1}, now, now), now)
