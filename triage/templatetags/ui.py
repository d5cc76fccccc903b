"""Template tags and filters that every page may use without loading them."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from django import template
from django.conf import settings
from django.template.loader import get_template
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scoring.formatting import percent, percent_in_full, percent_interval, risk_percent, trust_figure
from scoring.queries.read import PastJudgement
from scoring.types import Estimate, Measure
from triage.forms.filters import Bucket, LeaderboardFilters, ListFilters, QueueFilters
from triage.presenters import about
from triage.presenters import text as trust_words
from triage.presenters import text as words
from triage.presenters.queue import pills, row_lines, rows
from triage.presenters.queue.review import DraftLinks, NoteView
from triage.presenters.queue.row_actions import RowActs

register = template.Library()
SAY_LABELS = {
    "request_changes": "Changes you ask for",
    "comment": "Comment",
    "note": "Note for the other maintainers",
    "close": "Why it should be closed",
    "approve": "Why you approve it anyway",
}

register.filter("visible", words.visible)
register.filter("borrowed", words.borrowed_words)
register.filter("pill", pills.pill)
register.filter("score_pill", pills.score_pill)
register.filter("person", rows.person_view)
register.filter("worth_words", trust_words.worth_words)
register.filter("threshold", percent_in_full)
register.filter("risk", risk_percent)
register.filter("trust_figure", trust_figure)
register.filter("percent", percent)


@register.filter
def breakable(text: str) -> SafeString:
    """Return a text with addresses, of which each part may begin a new line."""
    return format_html_join(SafeString("/<wbr>"), "{}", ((part,) for part in text.split("/")))


@register.filter
def interval(told: Estimate) -> str:
    """Return the 95 % interval of a probability, rounded outwards."""
    return percent_interval(told.low, told.high)


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    """Return a symbol of static/icons/sprite.svg, hidden from screen readers.

    They read the text beside it. A page has hundreds.
    """
    sprite = static("icons/sprite.svg")
    return format_html('<svg class="icon {0}-icon" aria-hidden="true"><use href="{1}#{0}"/></svg>', name, sprite)


@register.simple_tag
def help_with(place: str, is_folded: bool = True) -> SafeString:
    """Return the help texts of this place's numbers, folded unless their container is folded.

    `triage.presenters.about` names the places.
    """
    return _help(place, is_folded, settings.LABEL_WINDOW_DAYS, settings.FALSE_APPROVAL_BUDGET)


@cache
def _help(place: str, is_folded: bool, days: int, budget: float) -> SafeString:
    """Return the help texts, rendered once for all pages."""
    return get_template("frame/_help.html").render(
        {"lines": about.help_for(place, days, budget), "is_folded": is_folded}
    )


@register.simple_tag
def page_search(filters: QueueFilters | LeaderboardFilters | ListFilters, page: int, step: int) -> str:
    """Return the query string of the page `step` further."""
    return filters.on_page(page + step)


@register.filter
def in_bucket(filters: QueueFilters, bucket: Bucket) -> str:
    """Return the query string of the queue narrowed to a bucket."""
    return filters.in_bucket(bucket)


@register.filter
def of(held: Mapping[str, Any] | None, key: str) -> Any:
    """Return the value of this key, such as the actions on a row's at-uri; None for nothing."""
    return held.get(key) if held else None


@register.filter
def ci_words(state: str) -> str:
    """Say the state of a CI run."""
    return rows.CI_WORDS[state]


@register.filter
def draft_links(links: DraftLinks | None, note: NoteView) -> SafeString:
    """Return links to the forms that begin with this finding; nothing where the viewer has none."""
    return SafeString(links.rendered(note) if links else "")


@register.filter
def say_label(kind: str) -> str:
    """Return the label of the text field for this action."""
    return SAY_LABELS[kind]


@register.filter
def lines(text: str) -> SafeString:
    """Return a person's text escaped, its lines kept, with the characters that hide in them spelled out."""
    split = text.replace("\r\n", "\n").split("\n")
    return format_html_join(SafeString("<br>"), "{}", ((words.visible(line),) for line in split))


@register.simple_tag
def row_line(item: rows.RowView, act: RowActs | None, opened: str, is_known: bool) -> SafeString:
    """Draw the line of a row; where nobody knows the viewer, without what it says about people."""
    if not is_known:
        item, act = rows.without_people(item), None
    return row_lines.draw_line(row_lines.row_line(item, act, opened))


register.filter("lane_alone", pills.lane_pill)


@register.filter
def recorded(sentence: str) -> str:
    """Return words of a judgement; on a recording they say that nothing is looked up."""
    return words.recorded_words(sentence) if settings.STREAM_CLOCK else sentence


@register.filter
def past_pill(judged: PastJudgement) -> pills.Pill:
    """Return the lane and the chance that a pull request had when it was decided."""
    return pills.pill(judged.verdict, judged.shadow)


@register.filter
def measure(value: Measure) -> str:
    """Return the served measure of structural trust in words."""
    return trust_words.MEASURE_WORDS[value]


@register.filter
def thousands(count: int) -> str:
    """Format a count with separators."""
    return f"{count:,}"


@register.filter
def unlocalized(number: float) -> str:
    """Format a length for SVG, with a point and without a needless fraction."""
    return f"{number:g}"


@register.filter
def when(moment: datetime | None) -> SafeString:
    """Return a naive UTC time as a <time> element, "unknown" for None."""
    aware = words.as_aware(moment)
    if aware is None:
        return SafeString("unknown")
    exact, day = f"{aware:%Y-%m-%d %H:%M} UTC", f"{aware.day} {aware:%b %Y}"
    return format_html('<time datetime="{}" title="{}">{}</time>', aware.isoformat(), exact, day)
