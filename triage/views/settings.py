"""The settings of watched repositories: signed-in people read them, maintainers change them.

The query string names a repository by its key, which unlike owner and name never changes.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from scoring.config.repository import DIDS, RepositorySettings, SettingsProblem
from scoring.queries import read
from scoring.queries.read import WatchedRepository
from triage.access.permissions import Role, require, role_of
from triage.access.requests import Request
from triage.forms.settings import (
    Field,
    change_words,
    form_fields,
    read_form,
    site_values,
    typed_handles,
    typed_of,
    with_dids,
)
from triage.presenters import lane as lane_words
from triage.presenters.contributor import signal_rows
from triage.services.estimated_lanes import end_by_watching
from triage.services.names import names
from triage.services.repository_settings import MAY_CHANGE, ChangedMeanwhile, history, newest, save
from triage.views.inbox.queue import first_run
from triage.views.lanes.lane_offers import lane_address, past_of, shadow_offer

NONE: Mapping[str, str] = MappingProxyType({})
SAVED = "Saved. The worker applies it within seconds and decides every open pull request here again."
SAME = "Nothing was different, so nothing was changed."
LATE = "Not saved: somebody else changed these settings before you. Below is the current state."


@never_cache
@require_safe
def settings_list(request: Request) -> HttpResponse:
    """List the watched repositories, each with a link to its settings."""
    require(request, "", Role.VIEWER)
    repositories = read.watched_repositories(request.snapshot) if request.snapshot else ()
    if not repositories:
        return first_run(request)
    return render(request, "settings/settings_list.html", {"repositories": repositories})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def repository_settings(request: Request) -> HttpResponse:
    """Show the settings of one repository; POST changes them."""
    repository = _find_repository(request, MAY_CHANGE if request.method == "POST" else Role.VIEWER)
    if request.method != "POST":
        return _page(request, repository, typed_of(newest(repository)))
    typed = {name: str(value) for name, value in request.POST.items()}
    try:
        handles = typed_handles(typed)
        dids = read.dids_of_handles(request.snapshot, handles) if request.snapshot and handles else {}
        new_settings = read_form(with_dids(typed, dids), newest(repository))
    except SettingsProblem as problem:
        return _page(request, repository, {**typed_of(newest(repository)), **typed}, problem.problems, status=422)
    return _save(request, repository, new_settings)


@never_cache
@require_POST
def switch_shadow(request: Request) -> HttpResponse:
    """Switch the shadow mode of one repository on or off."""
    repository = _find_repository(request, MAY_CHANGE)
    return _save(request, repository, replace(newest(repository), shadow=request.POST.get("shadow") != "off"))


def _find_repository(request: Request, role: Role) -> WatchedRepository:
    """Return the repository that the request names, for somebody with at least this role.

    Http404 where it is not watched.
    """
    key = (request.POST if request.method == "POST" else request.GET).get("repository", "")
    require(request, key, role)
    repository = read.watched_repository(request.snapshot, key) if request.snapshot else None
    if repository is None:
        raise Http404("No watched repository has this key; it may have been named by another one.")
    return repository


def _save(request: Request, repository: WatchedRepository, new_settings: RepositorySettings) -> HttpResponse:
    person, text = require(request, repository.key, MAY_CHANGE), request.POST.get("version", "")
    seen_version = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    try:
        with transaction.atomic():
            message = SAVED if save(person, repository, new_settings, seen_version, timezone.now()) else SAME
            if new_settings.shadow:
                end_by_watching(person, repository, timezone.now())
    except ChangedMeanwhile:
        return _page(request, repository, typed_of(newest(repository)), {"": LATE}, status=409)
    messages.success(request, message)
    return redirect(f"{reverse('repository_settings')}?{urlencode({'repository': repository.key})}")


def _page(
    request: Request,
    repository: WatchedRepository,
    typed: Mapping[str, str],
    problems: Mapping[str, str] = NONE,
    **options: Any,
) -> HttpResponse:
    current, may_change = newest(repository), role_of(request.user, repository.key) >= MAY_CHANGE
    asks = request.snapshot is not None and current.shadow and may_change
    shown = {
        "repository": repository,
        "held": current,
        "seeds": read.seeds_in_force(request.snapshot, repository.number) if request.snapshot else (),
        "arrived": current.version <= repository.settings.version,
        "may_change": may_change,
        "fields": _fields(request, current, typed, problems),
        "problem": problems.get("", ""),
        "wrong": bool(problems),
        "history": [(change, change_words(changes)) for change, changes in history(repository.key)],
        "upstream": signal_rows(read.upstream_facts(request.snapshot, repository.key))[0] if request.snapshot else (),
        "report": read.shadow_report(request.snapshot, repository.key) if request.snapshot else None,
        "lane_offer": shadow_offer(request.snapshot, repository) if asks and request.snapshot else None,
    }
    return render(
        request, "settings/repository_settings.html", shown | _budgets(request, repository, may_change), **options
    )


def _budgets(request: Request, repository: WatchedRepository, may_change: bool) -> dict[str, object]:
    """Return what other budgets would do, for whoever may choose one; no effects where nothing can be estimated."""
    past = past_of(request.snapshot, repository.key) if request.snapshot and may_change else None
    curve = past.spoken if past else None
    if past is None or curve is None:
        return {"effects": []}
    effects = lane_words.budget_effects(curve, past.budget)
    return {
        "effects": effects,
        "source": lane_words.SOURCES[curve.source],
        "lane_address": lane_address(past.repository.key),
    }


def _fields(
    request: Request, current: RepositorySettings, typed: Mapping[str, str], problems: Mapping[str, str]
) -> tuple[Field, ...]:
    site = site_values(settings.FALSE_APPROVAL_BUDGET, settings.FALSE_ALARM_BUDGET, settings.LABEL_WINDOW_DAYS)
    names_by_did = names(request.snapshot, (did for name in DIDS for did in getattr(current, name)))
    return form_fields(typed, problems, current, site, names_by_did)
