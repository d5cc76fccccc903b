"""A certificate beside the model that serves opens the lane in a pass, for its budget and as long as it is valid."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from scoring.certificates.certificate import write_certificate
from scoring.certificates.issue import certify
from scoring.config.policy import Policy
from scoring.config.repository import DEFAULTS
from scoring.handlers.settings import write_settings
from scoring.models.serving import LABEL
from scoring.models.storage import save_model, serve
from scoring.pipeline.lane_thresholds import CERTIFICATES
from scoring.pipeline.score import score
from scoring.thresholds import Thresholds
from tests.ingest.stream.frames import REPO
from tests.pipeline import At, Result
from tests.scoring.certificates.certified_cases import NOW, TERMS, settled
from tests.scoring.models.test_serving import made_up_model
from tests.scoring.pipeline.offered_world import offered_world

LATER = NOW + timedelta(days=1)
Shown = dict[int, tuple[float | None, bool, str | None]]
Judge = Callable[..., Shown]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Result]:
    with offered_world(tmp_path / "store") as result:
        yield result


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with a model that serves and a certificate of its scores, for a budget of 10 %."""
    folder = tmp_path / "models"
    name = save_model(folder, made_up_model(1), "")
    serve(folder, LABEL, name)
    write_certificate(folder / CERTIFICATES, certify(settled(), replace(TERMS, model=name), {}, NOW))
    return folder


@pytest.fixture
def judge(world: Result, models: Path) -> Judge:
    """Runs a pass and returns the thresholds by which people were judged, by repository (0: the site)."""

    def judged(now: datetime = LATER, traffic: int = 0, budget: float = 0.10) -> Shown:
        policy = Policy(models=models, lane_traffic=traffic, thresholds=Thresholds(budget=budget))
        score(world.store, At(now), policy)
        with world.store.read() as rows:
            found = rows.rows("select repository_id, any_value(thresholds) as told from current_scores group by all")
        told = {row["repository_id"]: json.loads(row["told"]) for row in found}
        return {
            number: (one["t_high"], one["certified"], one["shut"] and one["shut"]["code"])
            for number, one in told.items()
        }

    return judged


def test_it_opens_the_lane_of_the_site_and_of_every_repository(judge: Judge) -> None:
    assert set(judge().values()) == {(0.95, True, None)}


def test_it_says_nothing_for_a_smaller_budget(judge: Judge, world: Result) -> None:
    assert set(judge(budget=0.05).values()) == {(None, False, None)}


def test_a_repository_with_a_smaller_budget_stays_shut_beside_others_that_open(judge: Judge, world: Result) -> None:
    judge()
    write_settings(world.store, REPO, replace(DEFAULTS, version=2, shadow=False, budget=0.02), NOW)
    found = judge()
    assert found.pop(0) == (0.95, True, None)
    assert (None, False, None) in found.values()


def test_where_little_settles_it_opens_nothing(judge: Judge) -> None:
    found = judge(traffic=1000)
    assert found.pop(0) == (0.95, True, None)
    assert set(found.values()) == {(None, False, "too_little_traffic")}


def test_it_expires(judge: Judge) -> None:
    judge()
    found = judge(NOW + timedelta(days=91))
    assert set(found.values()) == {(None, False, "certificate_expired")}


def test_one_that_was_changed_does_not_count(judge: Judge, models: Path) -> None:
    (path,) = (models / CERTIFICATES).iterdir()
    path.write_bytes(path.read_bytes().replace(b'"budget":0.1', b'"budget":0.2'))
    assert set(judge().values()) == {(None, False, None)}


def test_one_of_another_model_does_not_count(judge: Judge, models: Path) -> None:
    serve(models, LABEL, save_model(models, made_up_model(2), ""))
    assert set(judge().values()) == {(None, False, None)}


def test_a_new_one_is_found_by_the_next_pass(judge: Judge, models: Path) -> None:
    (path,) = (models / CERTIFICATES).iterdir()
    kept = path.read_bytes()
    path.unlink()
    assert set(judge().values()) == {(None, False, None)}
    path.write_bytes(kept)
    assert set(judge().values()) == {(None, False, None)}, "nothing else asks for a pass"
    assert set(judge(LATER + timedelta(days=1)).values()) == {(0.95, True, None)}


def test_a_certified_t_low_is_found_by_a_pass_and_judged_by(judge: Judge, models: Path, world: Result) -> None:
    high = next(iter((models / CERTIFICATES).iterdir()))
    model = json.loads(high.read_bytes())["model"]
    write_certificate(models / CERTIFICATES, certify(settled(), replace(TERMS, model=model, side="low"), {}, NOW))
    policy = Policy(models=models, lane_traffic=0, thresholds=Thresholds(budget=0.10, low_budget=0.10))
    score(world.store, At(LATER), policy)
    with world.store.read() as rows:
        told = {json.loads(row["thresholds"])["t_low"] for row in rows.rows("select thresholds from current_scores")}
    assert told == {0.5}
    write_settings(world.store, REPO, replace(DEFAULTS, version=2, shadow=False, alarm_budget=0.05), NOW)
    score(world.store, At(LATER), policy)
    sql = "select repository_id = 0 as site, thresholds from current_scores"
    with world.store.read() as rows:
        found = {(row["site"], json.loads(row["thresholds"])["t_low"]) for row in rows.rows(sql)}
    assert found == {(True, 0.5), (False, 0.30)}, "there a smaller share of false alarms is borne"
