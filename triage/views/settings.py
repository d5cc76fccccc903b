"""The settings of watched repositories: whoever is signed in reads them, their maintainers change them.

A repository is named by its key in the query string, which unlike owner and name never changes.
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
from triage.services.estimated_lanes import end_by_watching
from triage.services.names import names
from triage.services.repository_settings import MAY_CHANGE, ChangedMeanwhile, history, newest, save
from triage.views.lane_offers import shadow_offer
from triage.views.queue import first_run

NONE: Mapping[str, str] = MappingProxyType({})
SAVED = "Saved. The worker applies it within seconds and decides every open pull request here again."
SAME = "Nothing was different, so nothing was changed."
LATE = "Not saved: somebody else changed these settings before you. Below is the current state."


@never_cache
@require_safe
def settings_list(request: Request) -> HttpResponse:
    """The watched repositories, each with a link to its settings."""
    require(request, "", Role.VIEWER)
    found = read.watched_repositories(request.snapshot) if request.snapshot else ()
    if not found:
        return first_run(request)
    return render(request, "settings/settings_list.html", {"repositories": found})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def repository_settings(request: Request) -> HttpResponse:
    """The settings of one repository; POST changes them."""
    found = _found(request, MAY_CHANGE if request.method == "POST" else Role.VIEWER)
    if request.method != "POST":
        return _page(request, found, typed_of(newest(found)))
    typed = {name: str(value) for name, value in request.POST.items()}
    try:
        handles = typed_handles(typed)
        known = read.dids_of_handles(request.snapshot, handles) if request.snapshot and handles else {}
        after = read_form(with_dids(typed, known), newest(found))
    except SettingsProblem as problem:
        return _page(request, found, {**typed_of(newest(found)), **typed}, problem.problems, status=422)
    return _save(request, found, after)


@never_cache
@require_POST
def switch_shadow(request: Request) -> HttpResponse:
    """Switch the shadow mode of one repository on or off."""
    found = _found(request, MAY_CHANGE)
    return _save(request, found, replace(newest(found), shadow=request.POST.get("shadow") != "off"))


def _found(request: Request, role: Role) -> WatchedRepository:
    """The repository that the request names, for somebody of at least this role; Http404 where it is not watched."""
    key = (request.POST if request.method == "POST" else request.GET).get("repository", "")
    require(request, key, role)
    found = read.watched_repository(request.snapshot, key) if request.snapshot else None
    if found is None:
        raise Http404("No watched repository has this key; it may have been named by another one.")
    return found


def _save(request: Request, found: WatchedRepository, after: RepositorySettings) -> HttpResponse:
    person, text = require(request, found.key, MAY_CHANGE), request.POST.get("version", "")
    seen = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    try:
        with transaction.atomic():
            told = SAVED if save(person, found, after, seen, timezone.now()) else SAME
            if after.shadow:
                end_by_watching(person, found, timezone.now())
    except ChangedMeanwhile:
        return _page(request, found, typed_of(newest(found)), {"": LATE}, status=409)
    messages.success(request, told)
    return redirect(f"{reverse('repository_settings')}?{urlencode({'repository': found.key})}")


def _page(
    request: Request, found: WatchedRepository, typed: Mapping[str, str], wrong: Mapping[str, str] = NONE, **how: Any
) -> HttpResponse:
    held, may_change = newest(found), role_of(request.user, found.key) >= MAY_CHANGE
    asks = request.snapshot is not None and held.shadow and may_change
    shown = {
        "repository": found,
        "held": held,
        "seeds": read.seeds_in_force(request.snapshot, found.number) if request.snapshot else (),
        "arrived": held.version <= found.settings.version,
        "may_change": may_change,
        "fields": _fields(request, held, typed, wrong),
        "problem": wrong.get("", ""),
        "wrong": bool(wrong),
        "history": [(change, change_words(changes)) for change, changes in history(found.key)],
        "report": read.shadow_report(request.snapshot, found.key) if request.snapshot else None,
        "lane_offer": shadow_offer(request.snapshot, found) if asks and request.snapshot else None,
    }
    return render(request, "settings/repository_settings.html", shown, **how)


def _fields(
    request: Request, held: RepositorySettings, typed: Mapping[str, str], wrong: Mapping[str, str]
) -> tuple[Field, ...]:
    site = site_values(settings.FALSE_APPROVAL_BUDGET, settings.FALSE_ALARM_BUDGET, settings.LABEL_WINDOW_DAYS)
    known = names(request.snapshot, (did for name in DIDS for did in getattr(held, name)))
    return form_fields(typed, wrong, held, site, known)
