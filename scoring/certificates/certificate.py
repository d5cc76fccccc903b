"""A certificate as a file: its fields, its canonical bytes, and its name, the digest of these bytes. Pure, and light.

The form is canonical JSON: sorted keys, no blanks, shortest numbers. Anybody with the file can recompute the threshold.
It names each case by a digest of the address, which reveals nothing without that address.

A folder holds each certificate as one file, which never changes.
"""

import hashlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ingest.files import write_whole
from ingest.json_decoding import decode_json
from scoring.dataset.cases import LabelName

FORM = "sunstead-certificate/2"
FILE_LIMIT = 64 * 1024 * 1024  # bytes of a file that is read: some 500,000 cases
LONGEST_DAYS = 90
ENOUGH_AS_SENT = 200  # settled pull requests known to be merged as sent or not
REVIEWED = "measured on pull requests that people also reviewed: the true rate without review may be higher"
SCORES_SHOWN = (
    "measured also on pull requests of which people were told that they score low, which makes a refusal likelier: "
    "more of what scores low may really be clean"
)

Share = Annotated[float, msgspec.Meta(ge=1e-9, lt=1)]
Spent = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Odds = Annotated[float, msgspec.Meta(ge=1e-6, le=1)]
Unit = Annotated[float, msgspec.Meta(ge=0, le=1)]
Weight = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]  # of UTC since 1970, up to the year 9999
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Moment = Annotated[datetime, msgspec.Meta(tz=False)]  # naive UTC
Label = Literal["clean_as_sent", "label_clean", "label_clean_fix", "label_merge"]
Side = Literal["high", "low"]  # of T_HIGH, from which the fast lane opens; of T_LOW, below which a person looks


class CertificateProblem(Exception):
    """A file that is not a certificate, or a certificate that may not be made; the text is one sentence."""


class Case(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One settled pull request: [digest, seconds of opening, score in steps of .0001, bad, odds, author].

    `bad` is 0 or 1, or a probability between; a case weighs 1 / `odds`. Authors are numbers within the file.
    """

    name: Digest
    opened: Seconds
    score: Annotated[int, msgspec.Meta(ge=0, le=10_000)]
    bad: Unit
    odds: Odds
    author: Count


class LaterOutcome(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An outcome that became known later than the certificate: [digest, seconds when known, bad, odds]."""

    name: Digest
    known: Seconds
    bad: Unit
    odds: Odds


class RuleRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rule that chose the threshold: its version, and its numbers for readers."""

    version: Annotated[str, msgspec.Meta(max_length=100)]
    numbers: dict[str, list[int] | int | float]


class NeedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cases missing for a certificate: a `scoring.certificates.sample_size.Need`."""

    needed: Count
    have: Count
    threshold: Unit | None
    weeks: Count | None
    authors: bool


class CertifiedResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result: the threshold, or None and the reason; n and k are weights, figures are rounded to six decimals.

    For the side "low" n counts all clean cases and k those below the threshold.
    """

    threshold: Unit | None
    why: Annotated[str, msgspec.Meta(max_length=100)]
    n: Weight
    k: Weight
    authors: Count
    effective: Weight
    bound: Unit
    share: Unit
    need: NeedRecord | None


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt to certify a threshold, successful or not, or its successor with later outcomes.

    `budget` depends on `side`: for "high" the share of bad cases in the fast lane, for "low" the share of clean cases
    sent to a person. `definition` is the label that makes a pull request clean: `label`, or the one that clean_as_sent
    adds to. All attempts of a side share `delta`; this one, number `attempt`, spent `delta_spent`. Its cases were
    opened within `window`. `model` names the model of the scores, `data` is the digest of `cases`. `previous` names the
    file of the attempt before; for a successor, the file that it extends.
    """

    form: Literal["sunstead-certificate/2"]
    side: Side
    rule: RuleRecord
    label: Label
    definition: LabelName
    note: Annotated[str, msgspec.Meta(max_length=1000)]
    budget: Share
    delta: Share
    attempt: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    delta_spent: Spent
    made_at: Moment
    expires_at: Moment
    window: tuple[Moment, Moment]
    model: Digest
    data: Digest
    cases: tuple[Case, ...]
    found: CertifiedResult
    previous: Digest | None = None
    later: tuple[LaterOutcome, ...] = ()

    def is_valid(self, now: datetime) -> bool:
        return self.found.threshold is not None and self.made_at <= now < self.expires_at


def encode(certificate: Certificate) -> bytes:
    return msgspec.json.encode(certificate, order="sorted")


def decode(data: bytes) -> Certificate:
    """Decode a certificate. Raises CertificateProblem for other bytes and for another than the canonical form."""
    if len(data) > FILE_LIMIT:
        raise CertificateProblem(f"the file has more than {FILE_LIMIT // 1024**2} MiB")
    try:
        certificate = decode_json(data, Certificate)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise CertificateProblem(f"it is not a certificate: {_printable(str(problem))}") from problem
    if encode(certificate) != data:
        raise CertificateProblem("it is not in canonical form, so somebody wrote it anew")
    return certificate


def name_of(data: bytes) -> str:
    """Return the name of a file with these bytes: their SHA-256 in 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def data_digest(cases: tuple[Case, ...]) -> str:
    """Return the digest of the cases alone, which is equal for two certificates on the same data."""
    return name_of(msgspec.json.encode(cases))


def case_name(made_at: datetime, key: str) -> str:
    """Return the digest of a case's address; it differs between certificates, so that nobody can join two."""
    return hashlib.sha256(f"sunstead case\n{made_at.isoformat()}\n{key}".encode("utf-8", "replace")).hexdigest()


def delta_of_attempt(delta: float, attempt: int) -> float:
    """Return the share of delta for attempt j = 1, 2, …: delta / (j (j + 1)); all of them sum to delta."""
    return delta / (attempt * (attempt + 1))


def to_seconds(moment: datetime) -> int:
    """Return the whole seconds since 1970 of a moment in naive UTC."""
    return (moment - datetime(1970, 1, 1)) // timedelta(seconds=1)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:200])


ENDING = ".json"
FOLDER_LIMIT = 10_000  # files read from a folder: one a month and model, and their successors


def write_certificate(folder: Path, certificate: Certificate) -> Path:
    """Write a certificate to `folder`, if it is not there yet, and return its path; it is on the drive by then."""
    data = encode(certificate)
    path = folder / f"{name_of(data)}{ENDING}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
    return path


def read_bytes(path: Path) -> bytes:
    """Read a file, at most one byte more than FILE_LIMIT. Raises CertificateProblem if it cannot be read."""
    try:
        if not path.is_file():  # a pipe would never end
            raise CertificateProblem("there is no such file")
        with path.open("rb") as file:
            return file.read(FILE_LIMIT + 1)
    except OSError as problem:
        raise CertificateProblem(f"it cannot be read ({problem.strerror})") from problem


def load_certificate(path: Path) -> Certificate:
    """Load a certificate and check its name; nothing is recomputed. Raises CertificateProblem."""
    data = read_bytes(path)
    if name_of(data) != path.name.removesuffix(ENDING):
        raise CertificateProblem("its name is not the SHA-256 of its bytes")
    return decode(data)


def read_certificates(folder: Path) -> tuple[dict[str, Certificate], list[str]]:
    """Read all certificates of a folder by name, and one sentence for each other file; nothing without a folder."""
    certificates, problems = {}, []
    paths = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
    if len(paths) > FOLDER_LIMIT:
        raise CertificateProblem(f"the folder has more than {FOLDER_LIMIT:,} certificates")
    for path in paths:
        try:
            certificates[path.name.removesuffix(ENDING)] = load_certificate(path)
        except CertificateProblem as problem:
            problems.append(f"{path.name[:80]} does not count: {problem}.")
    return certificates, problems
