"""The certificate that a published record names is the file behind its lane, and anybody finds that it recomputes."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from pytest_django import Settings

from ingest.store.database import StreamClock
from scoring.certificates.certificate import LaterOutcome, to_seconds, write_certificate
from scoring.certificates.issue import add_later_outcomes, certify
from scoring.config.policy import Policy
from scoring.models.serving import LABEL
from scoring.models.storage import save_model, serve
from scoring.pipeline.lane_thresholds import CERTIFICATES
from scoring.pipeline.score import score
from scoring.thresholds import Thresholds
from tests.ingest.atproto.signed import SignedAccount, SignedNetwork, Signer
from tests.pipeline import At, Result
from tests.scoring.certificates.certified_cases import NOW, TERMS, settled
from tests.scoring.models.test_serving import made_up_model
from tests.scoring.pipeline.offered_world import offered_world
from tests.triage.publishing.test_public_lanes import choose, end, judged, told
from triage.models import PublishedRecord, ServiceAccount
from triage.services.publishing.records import note_lanes
from triage.services.publishing.verifying import Verifier

pytestmark = pytest.mark.django_db
SITE = "did:plc:" + "s" * 24


def certified(models: Path, made_at: datetime) -> Path:
    """The file of the certificate that opens the lane, among others that do not."""
    name = save_model(models, made_up_model(1), "")
    serve(models, LABEL, name)
    folder, terms = models / CERTIFICATES, replace(TERMS, model=name)
    cases = settled()
    cases = replace(cases, opened_at=cases.opened_at + np.timedelta64(made_at - NOW))
    former = certify(cases, terms, {}, made_at - timedelta(days=40))
    made = certify(cases, terms, {write_certificate(folder, former).stem: former}, made_at)
    write_certificate(folder, certify(cases, replace(terms, side="low"), {}, made_at))
    path = write_certificate(folder, made)
    known = LaterOutcome(made.cases[0].name, to_seconds(made_at), 0.0, 1.0)
    write_certificate(folder, add_later_outcomes(made, path.stem, [known]))
    return path


def published(result: Result, models: Path, now: datetime) -> PublishedRecord:
    """The record of a pull request that a pass judged by the certificate, and that was merged then."""
    policy = Policy(models=models, lane_traffic=0, thresholds=Thresholds(budget=TERMS.budget))
    score(result.store, At(now), policy)
    judged(result, "fast_lane")
    end(result)
    long_after = now.replace(tzinfo=UTC) + timedelta(days=200)
    ServiceAccount.objects.create(did=SITE, server="https://pds.example.test", connected_at=long_after)
    note_lanes(told(result).values(), "decided", long_after)
    return PublishedRecord.objects.get(collection="org.sunstead.assessment")


def test_a_record_names_the_file_that_opened_its_lane_which_recomputes_also_after_it_expired(
    tmp_path: Path, settings: Settings
) -> None:
    settings.MODEL_DIR = tmp_path / "models"
    with offered_world(tmp_path / "store") as result:
        choose(result, "decided")
        now = StreamClock(result.store).now()
        path = certified(settings.MODEL_DIR, now - timedelta(days=1))
        record = published(result, settings.MODEL_DIR, now)
    assert record.record["policy"]["certificate"] == path.stem == hashlib.sha256(path.read_bytes()).hexdigest()
    key = f"{record.collection}/{record.rkey}"
    network = SignedNetwork({SITE: SignedAccount(SITE, Signer("site"), {key: record.record})})
    verifier = Verifier(network.fetcher(), "https://plc.directory", path.parent, now + timedelta(days=201), 10**8)
    found = {check.name: check.state for check in verifier.verify(f"at://{SITE}/{key}").checks}
    assert (found["Proof"], found["Certificate"]) == ("yes", "yes")
