"""Builds the reviewer from the operator's settings, and checks that its models can review."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

from django.conf import settings

from ingest.errors import FetchProblem
from ingest.git.history import read_files
from ingest.git.mirror import mirror_path
from ingest.git.process import Git
from ingest.lookups.advisories import Wanted, fetch_advisories
from ingest.lookups.packages import fetch_downloads, fetch_first_publications, fetch_versions
from ingest.store.database import Store
from ingest.store.transaction import Rows
from ingest.worker.runtime import Runtime
from scoring.config.policy import policy_from_settings
from scoring.config.repository import sensitive_paths_of
from scoring.diff.change import Change
from scoring.diff.similarity import nearest_known_bad
from scoring.packages.compare import comparisons, named_packages
from scoring.packages.entry import Package
from scoring.packages.licences import own_licence
from scoring.packages.publication import packages_to_look_up, publications_in
from scoring.review.anthropic_client import Access, Claude
from scoring.review.cache import Ledger, StoreLedger
from scoring.review.costs import capability, parse_prices
from scoring.review.payload import Rendering
from scoring.review.pending import Reviewing
from scoring.review.reviewer import Models, Reviewer, first_request, prompt_version
from scoring.review.schema import NoAnswer, plain_text
from scoring.scanners.commit_author import own_account
from scoring.scanners.dependencies import advisories_in
from scoring.scanners.submission import Knowledge

EMPTY_CHANGE = Rendering('{"findings": []}')


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The report on one model. `lifecycle` and the fields after it are None if the API does not know the model.

    `problem` says why the model cannot review, None if it can: count_tokens, which checks fields, schema and model and
    costs nothing, accepted a review's request. It takes no temperature, so `temperature` comes from our own table.
    """

    model: str
    role: str
    temperature: str
    lifecycle: str | None = None
    retires_on: date | None = None
    input_tokens: int | None = None
    problem: str | None = None

    @property
    def serves(self) -> bool:
        return self.problem is None


def check_model(claude: Claude, model: str, role: str) -> ModelReport:
    """Ask the API about a model; a refusal or an error becomes the report's problem."""
    sent_temperature = capability(model).temperature
    temperature = "no temperature is sent" if sent_temperature is None else f"temperature {sent_temperature:g} is sent"
    try:
        model_info = claude.look_up(model)
    except NoAnswer as problem:
        return ModelReport(model, role, temperature, problem=str(problem))
    retires = model_info.retires_at
    report = ModelReport(
        model=model,
        role=role,
        temperature=temperature,
        lifecycle=plain_text(model_info.lifecycle, 20) or "unknown",
        retires_on=retires.date() if retires else None,
        input_tokens=model_info.max_input_tokens,
        problem="it is retired" if model_info.lifecycle == "retired" else None,
    )
    return report if report.problem else _try_request(claude, report)


def _try_request(claude: Claude, report: ModelReport) -> ModelReport:
    try:
        claude.count_tokens(first_request(report.model, EMPTY_CHANGE, b"check"))
    except NoAnswer as problem:
        return replace(report, problem=f"refuses the request of a review: {problem}")
    return report


log = logging.getLogger(__name__)
TARGET = """
select m.repository_id, coalesce(p.target_branch, m.head) as branch, m.refs
from mirrors m join pull_requests p using (repository_id) where p.pull_uri = ?
"""


def access_from_settings() -> Access:
    """Return the access to the API; the key is empty if none is set."""
    return Access(
        api_key=settings.ANTHROPIC_API_KEY,
        base_url=settings.ANTHROPIC_BASE_URL,
        seconds=settings.REVIEW_SECONDS,
        attempts=settings.REVIEW_ATTEMPTS,
    )


def models_from_settings() -> Models:
    return Models(
        main=settings.CLAUDE_MODEL,
        hard=settings.CLAUDE_HARD_MODEL or None,
        screen=settings.CLAUDE_SCREEN_MODEL if settings.CLAUDE_SCREEN and settings.CLAUDE_SCREEN_MODEL else None,
        prices=parse_prices(settings.CLAUDE_PRICES),
        input_tokens=settings.REVIEW_INPUT_TOKENS,
    )


def reviewer_from_settings(ledger: Ledger, sleep: Callable[[float], None]) -> Reviewer:
    """Return the reviewer; `sleep` waits between attempts."""
    claude = Claude(access_from_settings(), sleep)
    return Reviewer(claude, models_from_settings(), str(settings.AUDIT_KEY).encode(), ledger)


def ledger_from_settings(store: Store, sender: str | None = None) -> StoreLedger:
    """Return the ledger with the day's limits; `sender` pays for a patch sent by hand."""
    return StoreLedger(
        store,
        settings.REVIEW_DOLLARS_A_DAY,
        store.wall,
        store.opened_clock,
        repository_budget=settings.REVIEW_DOLLARS_A_DAY_PER_REPOSITORY,
        sender=sender,
        own_budget=settings.REVIEW_DOLLARS_A_DAY_BY_HAND,
    )


def reviewing_from_settings(runtime: Runtime) -> Reviewing:
    """Return the means and limits of the worker's reviews; readings and costs are kept in the store."""
    ledger = ledger_from_settings(runtime.store)

    full_models = tuple({settings.CLAUDE_MODEL, settings.CLAUDE_HARD_MODEL} - {""})
    return Reviewing(
        thresholds=policy_from_settings().thresholds,
        folder=settings.DIFF_CORPUS_DIR,
        knowledge=knowledge_from_settings,
        review=reviewer_from_settings(ledger, time.sleep).review,
        has_key=bool(settings.ANTHROPIC_API_KEY),
        screens=settings.CLAUDE_SCREEN,
        budget=settings.REVIEW_DOLLARS_A_DAY,
        spent=ledger.spent_today,
        repository_budget=settings.REVIEW_DOLLARS_A_DAY_PER_REPOSITORY,
        spent_by_repository=ledger.spent_by_repository,
        learn=partial(learn_of_packages, runtime),
        version=prompt_version(),
        models=full_models,
        screen="" if settings.CLAUDE_SCREEN_MODEL in full_models else settings.CLAUDE_SCREEN_MODEL,
    )


def learn_of_packages(runtime: Runtime, change: Change) -> None:
    """Look up the packages of a change, as far as the operator allows it and no recent answer exists.

    osv.dev learns of all packages that the change names, the other hosts of few that it adds.
    """
    if not runtime.ask_advisories and not runtime.ask_registries:
        return
    files, store, fetcher = comparisons(change), runtime.store, runtime.fetcher
    named = _as_wanted(package for _, _, package in named_packages(files))
    added = _as_wanted(packages_to_look_up(files))
    if runtime.ask_advisories:
        fetch_advisories(store, fetcher, named, store.wall)
        fetch_versions(store, fetcher, added, store.wall)
        fetch_first_publications(store, fetcher, added, store.wall)
    if runtime.ask_registries:
        fetch_downloads(store, fetcher, added, store.wall, runtime.contact)


def _as_wanted(packages: Iterable[Package]) -> list[Wanted]:
    return [Wanted(package.ecosystem, package.name, package.version or "") for package in packages]


def knowledge_from_settings(rows: Rows, pull_uri: str) -> Knowledge:
    """Return the facts about a pull request from the operator's files and the store."""
    return Knowledge(
        licence=own_licence(rows, settings.MIRROR_DIR, pull_uri),
        account=own_account(rows, settings.DIFF_CORPUS_DIR, pull_uri),
        sensitive_paths=(*sensitive_paths_of(rows, pull_uri), *settings.SENSITIVE_PATHS),
        advisories=advisories_in(rows),
        publications=publications_in(rows, pull_uri),
        secret_rules=None if settings.SECRET_RULES is None else settings.SECRET_RULES.read_text("utf-8", "replace"),
        likeness=nearest_known_bad(rows, pull_uri),
        base_files=base_files_in(rows, settings.MIRROR_DIR, pull_uri),
    )


def base_files_in(rows: Rows, folder: Path, pull_uri: str) -> Callable[[Change], Mapping[str, str]]:
    """Return a function from a change to the old texts of its files by path; {} without a mirror of the branch."""
    row = rows.row(TARGET, [pull_uri])
    commit = json.loads(row["refs"]).get(row["branch"]) if row else None

    def read_base_files(change: Change) -> Mapping[str, str]:
        if row is None or commit is None:
            return {}
        paths = [file.old_path for file in change.files if file.kind != "added" and file.hunks]
        try:
            return read_files(Git(mirror_path(folder, row["repository_id"])), str(commit), paths)
        except FetchProblem as problem:
            log.warning("the files of %s cannot be read from its mirror: %s", pull_uri, problem)
            return {}

    return read_base_files
