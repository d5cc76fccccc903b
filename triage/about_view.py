"""The page that explains the site, for anybody: who is judged must be able to read how."""

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from scoring import read
from scoring.objections import DAYS
from triage.about_words import Facts, sections
from triage.access import may_read
from triage.actions import false_alarms
from triage.middleware import Request


@require_safe
def about(request: Request) -> HttpResponse:
    """How it judges, what is never used, what leaves this machine, how to object."""
    return render(request, "about.html", {"sections": sections(facts_from_settings(_readers(request)))})


def facts_from_settings(readers: tuple[int, int] | None) -> Facts:
    """What the page says, as the site is set."""
    models = (settings.CLAUDE_MODEL, settings.CLAUDE_HARD_MODEL)
    screen = settings.CLAUDE_SCREEN_MODEL if settings.CLAUDE_SCREEN else ""
    return Facts(
        measure=settings.TRUST,
        hops=settings.TRUST_HOPS,
        window=settings.LABEL_WINDOW_DAYS,
        budget=settings.FALSE_APPROVAL_BUDGET,
        delta=settings.FALSE_APPROVAL_DELTA,
        is_by_hand=settings.T_HIGH is not None,
        audited=settings.AUDIT_SHARE,
        models=tuple(dict.fromkeys(filter(None, (*models, screen)))) if settings.ANTHROPIC_API_KEY else (),
        dollars=settings.REVIEW_DOLLARS_A_DAY,
        api=settings.ANTHROPIC_BASE_URL,
        readers=readers,
        streams=(*settings.JETSTREAM_URLS, *settings.KNOT_STREAMS),
        directories=(settings.PLC_URL, *settings.BACKFILL_HOSTS),
        profiles=settings.BLUESKY_API,
        forge=settings.APPVIEW_URL,
        asks_advisories=settings.ASK_ADVISORIES,
        objection_days=DAYS,
        is_recording=settings.STREAM_CLOCK,
        false_alarms=false_alarms() if readers is not None else {},
    )


def _readers(request: Request) -> tuple[int, int] | None:
    """How many watched repositories let Claude read their changes, of how many; for those who may read."""
    if request.snapshot is None or not may_read(request):
        return None
    modes = [one.settings.review for one in read.watched_repositories(request.snapshot)]
    return modes.count("claude"), len(modes)
