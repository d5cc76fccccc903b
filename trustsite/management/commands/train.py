"""`manage.py train`: fit the models to the present history, decide which serves, and store it as text."""

import json
import os
import resource
import signal
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from ingest.clock import wall_now
from ingest.cluster.engine import ClusterProblem
from ingest.files import write_whole
from ingest.history_import.files import PastProblem
from ingest.store.snapshots import Snapshot, SnapshotReader
from scoring.certificates.certificate import CertificateProblem, read_certificates, write_certificate
from scoring.certificates.issue import Terms
from scoring.certificates.lane_curve import FILE as CURVE_FILE
from scoring.certificates.sample_size import Need, say_low_need, say_need
from scoring.certificates.threshold_queries import write_table
from scoring.cluster.job import finished
from scoring.config.policy import policy_from_settings
from scoring.dataset.cases import LABELS, LabelName
from scoring.dataset.dataset import FeaturesProblem, Material, material_of_file, read_lane, read_material
from scoring.dataset.labels import FastLaned
from scoring.formatting import percent_in_full
from scoring.models.base import FitProblem
from scoring.models.calibration import CalibrationProblem
from scoring.models.serving import LABEL
from scoring.models.starter import starter_words
from scoring.models.storage import (
    ModelProblem,
    card_of,
    load_model,
    objection,
    save_model,
    serve,
    serving_name,
)
from scoring.pipeline.lane_thresholds import CERTIFICATES
from scoring.queries import read
from scoring.training.graph_card import said_of_promotion
from scoring.training.graph_model import GraphProblem, store_graph, try_graph
from scoring.training.graph_trial import HOW, is_installed
from scoring.training.process import note_end
from scoring.training.starter import starter_of_file, text_of
from scoring.training.summary import shown_model, write_figures
from scoring.training.train import attempt, lane_table, record_of, train

if TYPE_CHECKING:
    from scoring.certificates.certificate import Certificate, Side
    from scoring.certificates.issue import Terms
    from scoring.dataset.cases import Cases
    from scoring.dataset.dataset import Material
    from scoring.dataset.labels import FastLaned
    from scoring.training.summary import ShownGraph
    from scoring.training.train import Trained


def present_of(snapshot: Snapshot) -> datetime:
    """Return the present of a snapshot as naive UTC: of a demo or a replay the time of its newest event."""
    newest = None if settings.PLACE.mode == "drive" else read.dashboard(snapshot).newest_event_at
    return newest or wall_now()


def material_of(file: Path | None, features: Path | None = None, most: int | None = None) -> tuple[datetime, Material]:
    """Read the history, and the moment as of which it is. Raises CommandError, in one sentence, if there is none.

    `features` is the folder of a finished `manage.py cluster features`; then the moment is that of the job,
    and about `most` cases of whole people are drawn.
    """
    policy, now = policy_from_settings(), wall_now()
    if file is not None:
        if not file.is_file():
            raise CommandError(f"{file} does not exist: name a file.", returncode=2)
        try:
            return now, material_of_file(file, settings.STAGING_DIR, now, policy)
        except PastProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        if snapshot is None:
            raise CommandError("Nothing was published yet: run the worker first, or name a FILE.", returncode=2)
        if features is None:
            now = present_of(snapshot)
            return now, read_material(snapshot, now, policy)
        try:
            as_of, table = finished(features, policy)
            return as_of, read_material(snapshot, as_of, policy, table, most)
        except (ClusterProblem, FeaturesProblem) as problem:
            raise CommandError(str(problem), returncode=2) from problem


def starter_of(file: Path, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the starter file of a file of past pull requests, and its curve. Raises CommandError if there is none."""
    if not file.is_file():
        raise CommandError(f"{file} does not exist: name a file.", returncode=2)
    try:
        return starter_of_file(file, settings.STAGING_DIR, wall_now(), seed)
    except (FitProblem, PastProblem) as problem:
        raise CommandError(f"{str(problem).rstrip('.')}.", returncode=2) from problem


class Attempts(NamedTuple):
    """The results of both attempts: sentences for the person who trains, T_HIGH and T_LOW for pages, and T_LOW."""

    said: str
    shown: "tuple[Certificate | None, str, float]"


FOREIGN = "It learned from a file alone, not from this store: run import_history first."


class Command(BaseCommand):
    """Read a snapshot or a file and write below MODEL_DIR; the running worker takes the new model automatically."""

    help = (
        "Fit every model to the newest snapshot and keep the simplest that is not beaten. It serves unless it is worse "
        "than the one that serves now. A model of a FILE of past pull requests is kept and does not serve."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add FILE and the options."""
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--demo", action="store_true", help="the demo's store")
        group.add_argument("--replay", metavar="DIR", help="the store that a replay of DIR keeps")
        parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="Parquet, or CSV by its ending")
        parser.add_argument(
            "--features", type=Path, metavar="FOLDER", help="take what manage.py cluster features left there"
        )
        parser.add_argument(
            "--rows", type=int, metavar="N", help="of --features: learn from about N, all of a part of the people"
        )
        parser.add_argument("--label", choices=LABELS, default=LABEL, help=f"default {LABEL}, which is what serves")
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of models and draws (default 0)")
        parser.add_argument("--draws", type=int, default=1000, metavar="N", help="of each bootstrap (default 1000)")
        parser.add_argument("--replace", action="store_true", help="let it serve even where it is worse or foreign")
        parser.add_argument("--seconds", type=int, metavar="N", help="end this process, unfinished, after so long")
        parser.add_argument("--megabytes", type=int, metavar="N", help="end it when it wants more address space")
        parser.add_argument(
            "--json", action="store_true", help="the decision as a JSON object, then what the network gives"
        )
        parser.add_argument(
            "--starter", type=Path, metavar="PATH", help="fit nothing else: write the starter model of FILE there"
        )

    def handle(
        self,
        *args: object,
        file: Path | None,
        label: LabelName,
        seed: int,
        draws: int,
        replace: bool,
        starter: Path | None,
        **options: Any,
    ) -> None:
        """Train, save, point. Raises CommandError if there is no history to read or the folder cannot be written."""
        from threadpoolctl import threadpool_limits

        if seed < 0 or draws < 1:
            raise CommandError("--seed must be 0 or more and --draws 1 or more.", returncode=2)
        if file is not None and options["features"] is not None:
            raise CommandError("Features belong to this store: name either --features or a FILE.", returncode=2)
        if options["rows"] is not None and (options["rows"] < 1 or options["features"] is None):
            raise CommandError("--rows must be 1 or more, and needs --features.", returncode=2)
        limit(options["seconds"], options["megabytes"])
        if starter is not None:
            self._write_starter(file, starter, label, seed, options["json"])
            return
        erasures = _count_erasures()
        now, material = material_of(file, options["features"], options["rows"])
        # Two threads on two busy cores took five times as long as one.
        with threadpool_limits(1), tqdm(leave=False, disable=None, desc=label) as bar:
            trained = train(material, label, now, draws, seed, lambda words: bar.update() and None)
        record = record_of(trained, material, label, now, seed)
        objection_words = "" if replace else FOREIGN if file is not None else objection(record, _serving_record(label))
        try:
            name = save_model(settings.MODEL_DIR, record, card_of(record))
            is_kept_only = bool(objection_words) or file is not None
            attempts = None if is_kept_only else self._certify(material, trained, label, name, now)
            write_figures(settings.MODEL_DIR, shown_model(record, name, *(attempts.shown if attempts else (None,))))
            if not objection_words:  # last, so that the pass for the new model finds its certificate there
                serve(settings.MODEL_DIR, label, name)
        except OSError as problem:
            raise CommandError(f"{settings.MODEL_DIR} cannot be written ({problem.strerror}).") from problem
        if file is None:
            note_end(settings.MODEL_DIR, time.time())
        self._tell(record, name, objection_words, options["json"], attempts.said if attempts else None)
        self.stdout.flush()  # the trial takes hours, or is ended
        if settings.SHOW_GRAPH_MODEL and not objection_words:
            self._tell_graph(_try_graph(material, label, now, trained, draws, seed, erasures), options["json"])

    def _write_starter(self, file: Path | None, path: Path, label: LabelName, seed: int, as_json: bool) -> None:
        """Write the starter model of a file of other projects, with its quality on projects it has not seen."""
        if file is None or label != LABEL:
            raise CommandError(f"--starter needs a FILE, and learns {LABEL}.", returncode=2)
        record, curve = starter_of(file, seed)
        curve_path = path.with_name(CURVE_FILE.name)
        try:
            write_whole(path, text_of(record).encode())
            write_whole(curve_path, text_of(curve).encode())
        except OSError as problem:
            raise CommandError(f"{path} cannot be written ({problem.strerror}).") from problem
        if as_json:
            output = {"starter": str(path), **{name: record[name] for name in ("provenance", "on_projects_not_seen")}}
            self.stdout.write(json.dumps(output, allow_nan=False))
            return
        for sentence in starter_words(record):
            self.stdout.write(sentence)
        self.stdout.write(f"{path} was written, and the curve of the fast lane as {curve_path}.")

    def _certify(
        self, material: "Material", trained: "Mapping[str, Trained]", label: LabelName, name: str, now: datetime
    ) -> "Attempts":
        """Store the table of thresholds, and attempt to certify both for the model that serves now."""
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            lane = read_lane(snapshot, now) if snapshot else FastLaned()
        high, low = (_build_terms(side, label, name) for side in ("high", "low"))
        write_table(settings.MODEL_DIR, lane_table(material.cases, trained, high, lane, now))
        (sentence, certificate), (low_sentence, low_certificate) = (
            _attempt_side(material.cases, trained, terms, lane, now) for terms in (high, low)
        )
        t_low = low_certificate.found.threshold if low_certificate else None
        shown = (
            certificate,
            _describe_low(low_certificate) if low_certificate else "",
            settings.T_LOW if t_low is None else t_low,
        )
        return Attempts(f"{sentence}\n{low_sentence}", shown)

    def _tell(
        self,
        record: dict[str, Any],
        name: str,
        objection_words: str,
        as_json: bool,
        certificate: str | None,
    ) -> None:
        scopes = record["scopes"]
        if as_json:
            decisions = {scope: part["decision"] for scope, part in scopes.items()}
            output = {
                "model": name,
                "serves": not objection_words,
                "objection": objection_words,
                "decisions": decisions,
            }
            output["certificate"] = certificate
            self.stdout.write(json.dumps(output, allow_nan=False))
            return
        for scope, part in scopes.items():
            self.stdout.write(f"{scope}: {part['decision']['serves']} of {len(part['decision']['trials'])} models")
            for sentence in (
                *(f"{trial['name']}: {trial['why']}" for trial in part["decision"]["trials"][1:]),
                *part["said"],
            ):
                self.stdout.write(f"  {sentence}")
        self.stdout.write(
            f"{settings.MODEL_DIR / name}.json "
            + (f"does not serve. {objection_words}" if objection_words else "serves.")
        )
        if certificate:
            self.stdout.write(certificate)

    def _tell_graph(self, graph: "ShownGraph | str", as_json: bool) -> None:
        if as_json:
            told = graph if isinstance(graph, str) else msgspec.to_builtins(graph)
            self.stdout.write(json.dumps({"graph": told}, allow_nan=False))
        elif isinstance(graph, str):
            self.stdout.write(graph)
        else:
            self.stdout.write(f"{settings.MODEL_DIR / graph.checkpoint}.md: {said_of_promotion(graph)}")
            for trial in graph.trials:
                self.stdout.write(f"  graphsage, {trial.scope}, {trial.group}: {trial.why}")


def _count_erasures() -> int:
    """Return how many people had been erased as of the newest snapshot."""
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        return (snapshot.value("select position_seq from hops where name = 'erase'") or 0) if snapshot else 0


class _OutOfTime(Exception):
    """The time of the process was over during the trial of the network."""


def _stop_trial(*arguments: object) -> None:
    raise _OutOfTime("its time was over")


# By PyTorch where it does not fit into the address space: ImportError, MemoryError or RuntimeError.
TRIAL_PROBLEMS = (
    CalibrationProblem,
    FitProblem,
    ImportError,
    MemoryError,
    OSError,
    RuntimeError,
    _OutOfTime,
)


def _try_graph(
    material: "Material",
    label: LabelName,
    now: datetime,
    trained: "Mapping[str, Trained]",
    draws: int,
    seed: int,
    erasures: int,
) -> "ShownGraph | str":
    """Try the graph network and store it; return its card, or why there is none: the training succeeded before.

    `erasures` were done before the material was read.
    """
    from threadpoolctl import threadpool_limits

    if not is_installed():
        return HOW
    before = signal.signal(signal.SIGALRM, _stop_trial)  # until here the signal ended the process
    try:
        with threadpool_limits(1), tqdm(leave=False, disable=None, desc="graphsage") as bar:
            graph = try_graph(material, label, now, trained, draws, seed, lambda words: bar.update() and None)
        signal.alarm(0)  # what follows takes seconds
        folders = settings.MODEL_DIR, settings.PYG_ROOT
        return store_graph(*folders, graph, material, label, now, lambda: _count_erasures() == erasures)
    except GraphProblem as problem:
        return str(problem)
    except TRIAL_PROBLEMS as problem:
        words = " ".join(str(problem).split())[:200] or type(problem).__name__
        return f"There is no new GraphSAGE ({words}); the model serves all the same."
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _build_terms(side: "Side", label: LabelName, model: str) -> "Terms":
    """Return the terms of a certificate for this model, from the settings."""
    budget = settings.FALSE_APPROVAL_BUDGET if side == "high" else settings.FALSE_ALARM_BUDGET
    return Terms(budget, settings.FALSE_APPROVAL_DELTA, label, model, settings.CERTIFICATE_DAYS, side)


def _attempt_side(
    cases: "Cases", trained: "Mapping[str, Trained]", terms: "Terms", lane: "FastLaned", now: datetime
) -> "tuple[str, Certificate | None]":
    """Make one attempt at one side and store its result; return a sentence, and None if no attempt is allowed."""
    folder = settings.MODEL_DIR / CERTIFICATES
    try:
        certificate = attempt(cases, trained, terms, lane, read_certificates(folder)[0], now)
        path = write_certificate(folder, certificate)
    except CertificateProblem as problem:
        return f"No certificate: {problem}.", None
    return (
        f"{_describe_high(certificate) if certificate.side == 'high' else _describe_low(certificate)} {path}",
        certificate,
    )


def limit(seconds: int | None, megabytes: int | None) -> None:
    """Make the system end this process after this time or address space, and lower its priority."""
    if seconds is not None:
        signal.alarm(seconds)  # the signal is not handled, so it ends the process
    if megabytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1_000_000, megabytes * 1_000_000))
    if seconds is not None or megabytes is not None:
        os.nice(10)


def _describe_high(certificate: "Certificate") -> str:
    """Describe the result of an attempt at T_HIGH."""
    result = certificate.found
    if result.threshold is not None:
        return (
            f"The fast lane starts at {percent_in_full(result.threshold)} with a budget of "
            f"{percent_in_full(certificate.budget)}. It rests on {result.n:.0f} settled pull requests of "
            f"{result.authors} people, {result.k:.0f} of them bad."
        )
    if result.need is None:
        budget = percent_in_full(certificate.budget)
        return f"Nothing is certified: the lane did not keep {budget} in every part of the last year."
    return f"Nothing is certified: {say_need(Need(**msgspec.structs.asdict(result.need)))}."


LOW_STAYS = "The chance below which a person looks (T_LOW) stays as it is"


def _describe_low(certificate: "Certificate") -> str:
    """Describe the result of an attempt at T_LOW."""
    result = certificate.found
    if result.threshold is not None:
        return (
            f"A person looks below {percent_in_full(result.threshold)}, where {result.k:.0f} of {result.n:.0f} clean "
            f"pull requests of {result.authors} people with a record are: with a budget of "
            f"{percent_in_full(certificate.budget)} of them."
        )
    if result.need is None:
        return f"{LOW_STAYS}: no threshold held {percent_in_full(certificate.budget)} in every part of the last year."
    return f"{LOW_STAYS}: {say_low_need(Need(**msgspec.structs.asdict(result.need)))}."


def _serving_record(label: LabelName) -> Any:
    """Return the record of the serving model, or None if there is none or it is unusable."""
    try:
        name = serving_name(settings.MODEL_DIR, label)
        return load_model(settings.MODEL_DIR, name).record if name else None
    except ModelProblem:
        return None
