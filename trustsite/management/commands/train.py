"""`manage.py train`: fit the models to the present history, decide which serves, and keep it as text."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from ingest.clock import wall_now
from ingest.snapshot import SnapshotReader
from scoring.lane_certificates import CERTIFICATES
from scoring.learning.cases import LABELS, LabelName
from scoring.need import Need, say_need
from scoring.serving import LABEL
from trustsite.material import material_of

if TYPE_CHECKING:
    from scoring.learning.certificate import Certificate
    from scoring.learning.material import Material
    from scoring.learning.training import Trained


FOREIGN = "It learned from a file alone, not from what this store knows: import_history comes first."


class Command(BaseCommand):
    """Reads a snapshot or a file and writes below MODEL_DIR; the running worker takes the new model by itself."""

    help = (
        "Fit every model to the newest snapshot, keep the simplest that is not beaten, and let it serve unless it is "
        "worse than the one that does. A model of a FILE of past pull requests is kept and does not serve."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """FILE, --label, --seed, --draws, --replace and --json."""
        parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="Parquet, or CSV by its ending")
        parser.add_argument("--label", choices=LABELS, default=LABEL, help=f"default {LABEL}, which is what serves")
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of models and draws (default 0)")
        parser.add_argument("--draws", type=int, default=1000, metavar="N", help="of each bootstrap (default 1000)")
        parser.add_argument("--replace", action="store_true", help="let it serve even where it is worse or foreign")
        parser.add_argument("--json", action="store_true", help="the decision as one JSON object")

    def handle(
        self,
        *args: object,
        file: Path | None,
        label: LabelName,
        seed: int,
        draws: int,
        replace: bool,
        **options: Any,
    ) -> None:
        """Train, keep, point; CommandError where there is no history to read or the folder cannot be written."""
        from scoring.learning.card import card_of
        from scoring.learning.model_files import objection, record_of, save_model, serve
        from scoring.learning.training import train

        if seed < 0 or draws < 1:
            raise CommandError("--seed must be 0 or more and --draws 1 or more.", returncode=2)
        now, material = wall_now(), material_of(file)
        with tqdm(leave=False, disable=None, desc=label) as bar:
            trained = train(material, label, now, draws, seed, lambda words: bar.update() and None)
        record = record_of(trained, material, label, now, seed)
        against = "" if replace else FOREIGN if file is not None else objection(record, _serving(label))
        try:
            name = save_model(settings.MODEL_DIR, record, card_of(record))
            told = None if against or file is not None else self._certify(material, trained, label, name, now)
            if not against:  # last: the pass that a new model asks for finds its certificate there
                serve(settings.MODEL_DIR, label, name)
        except OSError as problem:
            raise CommandError(f"{settings.MODEL_DIR} cannot be written ({problem.strerror}).") from problem
        self._tell(record, name, against, options["json"], told)

    def _certify(
        self, material: "Material", trained: "Mapping[str, Trained]", label: LabelName, name: str, now: datetime
    ) -> str:
        """One attempt to certify a threshold of the model that serves now, in a sentence."""
        from scoring.learning.attempt import attempt, read_lane
        from scoring.learning.certificate import CertificateProblem
        from scoring.learning.certificate_files import keep_certificate, read_certificates

        folder = settings.MODEL_DIR / CERTIFICATES
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            lane = read_lane(snapshot, now) if snapshot else ({}, set())
        rates = (settings.FALSE_APPROVAL_BUDGET, settings.FALSE_APPROVAL_DELTA, settings.CERTIFICATE_DAYS)
        try:
            before, _ = read_certificates(folder)
            made = attempt(material.cases, trained, label, name, *rates, lane, before, now)
            path = keep_certificate(folder, made)
        except CertificateProblem as problem:
            return f"No certificate: {problem}."
        return f"{_found(made)} {path}"

    def _tell(self, record: dict[str, Any], name: str, against: str, as_json: bool, certificate: str | None) -> None:
        scopes = record["scopes"]
        if as_json:
            decisions = {scope: part["decision"] for scope, part in scopes.items()}
            told = {"model": name, "serves": not against, "objection": against, "decisions": decisions}
            told["certificate"] = certificate
            self.stdout.write(json.dumps(told, allow_nan=False))
            return
        for scope, part in scopes.items():
            self.stdout.write(f"{scope}: {part['decision']['serves']} of {len(part['decision']['trials'])} models")
            for sentence in (
                *(f"{trial['name']}: {trial['why']}" for trial in part["decision"]["trials"][1:]),
                *part["said"],
            ):
                self.stdout.write(f"  {sentence}")
        self.stdout.write(
            f"{settings.MODEL_DIR / name}.json " + (f"does not serve. {against}" if against else "serves.")
        )
        if certificate:
            self.stdout.write(certificate)


def _found(made: "Certificate") -> str:
    """What an attempt came to."""
    found = made.found
    if found.t_high is not None:
        return (
            f"The fast lane begins at {found.t_high} with a budget of {made.budget:.0%}: {found.n:.0f} settled pull "
            f"requests of {found.authors} people stand behind it, {found.k:.0f} of them bad."
        )
    if found.need is None:
        return f"Nothing is certified: the lane did not hold {made.budget:.0%} in every part of the last year."
    return f"Nothing is certified: {say_need(Need(**msgspec.structs.asdict(found.need)))}."


def _serving(label: LabelName) -> Any:
    """The record of what serves, None where nothing does or what does cannot be used."""
    from scoring.learning.model_files import ModelProblem, load_model, serving_name

    try:
        name = serving_name(settings.MODEL_DIR, label)
        return load_model(settings.MODEL_DIR, name).record if name else None
    except ModelProblem:
        return None
