"""A certificate as a file: what it says, its one form in bytes, and the name that follows from them. Pure, and light.

The form is canonical JSON: sorted keys, no blanks, shortest numbers. Whoever has the file can recompute the threshold
from it; a case is told by a digest of its address, which shows nobody who does not know it already.

A folder of certificates holds each as a file that is named by its bytes and never changed.
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
LARGEST = 64 * 1024 * 1024  # bytes of a file that is read: some 500,000 cases
LONGEST_DAYS = 90
ENOUGH_AS_SENT = 200  # settled ones of which it is known whether they were merged as they were sent
REVIEWED = "measured on pull requests that people also reviewed: the true rate without review may be higher"
TOLD = (
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
    """A file that is no certificate, or one that may not be made; the text is one sentence for a person."""


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


class Later(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An outcome that became known after the certificate was made: [digest, seconds when it was known, bad, odds]."""

    name: Digest
    known: Seconds
    bad: Unit
    odds: Odds


class ToldRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rule by which the threshold was chosen: its version, and its numbers for the reader."""

    version: Annotated[str, msgspec.Meta(max_length=100)]
    numbers: dict[str, list[int] | int | float]


class ToldNeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lack that kept a threshold from being certified: a `scoring.certificates.sample_size.Need`."""

    needed: Count
    have: Count
    threshold: Unit | None
    weeks: Count | None
    authors: bool


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result: the threshold, or None and the reason; n and k are weights, figures are rounded to six decimals.

    Of the side "low" n are all clean ones and k those of them that scored below the threshold.
    """

    threshold: Unit | None
    why: Annotated[str, msgspec.Meta(max_length=100)]
    n: Weight
    k: Weight
    authors: Count
    effective: Weight
    bound: Unit
    share: Unit
    need: ToldNeed | None


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt to certify a threshold, successful or not, or a successor that adds later outcomes to one.

    `budget` is of `side`: "high" the share of bad ones in the fast lane, "low" that of all clean ones that is sent to a
    person. `definition` is by which label a pull request is clean: `label`, or the one that clean_as_sent adds to.
    `delta` may be spent over all attempts of a side, `delta_spent` is what this one spent as number `attempt` of it.
    `window` are the moments between which its cases were opened. `model` names the model whose scores they are, `data`
    is the digest of `cases`. `previous` names the file of the attempt before, of a successor the file that it extends.
    """

    form: Literal["sunstead-certificate/2"]
    side: Side
    rule: ToldRule
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
    found: Found
    previous: Digest | None = None
    later: tuple[Later, ...] = ()

    def is_valid(self, now: datetime) -> bool:
        """Return whether it certifies a threshold at this moment."""
        return self.found.threshold is not None and self.made_at <= now < self.expires_at


def encode(certificate: Certificate) -> bytes:
    """Its one form in bytes."""
    return msgspec.json.encode(certificate, order="sorted")


def decode(data: bytes) -> Certificate:
    """The certificate in these bytes; CertificateProblem for whatever is none, or is not in its one form."""
    if len(data) > LARGEST:
        raise CertificateProblem(f"the file has more than {LARGEST // 1024**2} MiB")
    try:
        certificate = decode_json(data, Certificate)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise CertificateProblem(f"it is not a certificate: {_printable(str(problem))}") from problem
    if encode(certificate) != data:
        raise CertificateProblem("it is not in canonical form, so somebody wrote it anew")
    return certificate


def name_of(data: bytes) -> str:
    """The name that these bytes have: their SHA-256 in 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def data_digest(cases: tuple[Case, ...]) -> str:
    """The digest of the cases alone, which two certificates on the same data share."""
    return name_of(msgspec.json.encode(cases))


def case_name(made_at: datetime, key: str) -> str:
    """The digest of a case's address; another one in every certificate, so that two of them cannot be joined."""
    return hashlib.sha256(f"sunstead case\n{made_at.isoformat()}\n{key}".encode("utf-8", "replace")).hexdigest()


def delta_of(delta: float, attempt: int) -> float:
    """Return what attempt number 1, 2, … may spend: delta / (j (j + 1)), which over all of them sums to delta."""
    return delta / (attempt * (attempt + 1))


def to_seconds(moment: datetime) -> int:
    """Whole seconds since 1970 of a moment in naive UTC."""
    return (moment - datetime(1970, 1, 1)) // timedelta(seconds=1)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:200])


ENDING = ".json"
MOST = 10_000  # files of a folder that are read: one a month and model, and their successors


def keep_certificate(folder: Path, certificate: Certificate) -> Path:
    """Write a certificate below `folder`, whole and on the drive before this returns; returns its file. Again: none."""
    data = encode(certificate)
    path = folder / f"{name_of(data)}{ENDING}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
    return path


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, at most one more than a certificate may have. CertificateProblem: it cannot be read."""
    try:
        if not path.is_file():  # a pipe would never end
            raise CertificateProblem("there is no such file")
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as problem:
        raise CertificateProblem(f"it cannot be read ({problem.strerror})") from problem


def load_certificate(path: Path) -> Certificate:
    """A certificate that is what its name says, not recomputed. Raises CertificateProblem."""
    data = read_bytes(path)
    if name_of(data) != path.name.removesuffix(ENDING):
        raise CertificateProblem("its name is not the SHA-256 of its bytes")
    return decode(data)


def read_certificates(folder: Path) -> tuple[dict[str, Certificate], list[str]]:
    """All certificates of a folder by name, and one sentence for each file that is none. No folder: none."""
    certificates, problems = {}, []
    paths = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
    if len(paths) > MOST:
        raise CertificateProblem(f"the folder has more than {MOST:,} certificates")
    for path in paths:
        try:
            certificates[path.name.removesuffix(ENDING)] = load_certificate(path)
        except CertificateProblem as problem:
            problems.append(f"{path.name[:80]} does not count: {problem}.")
    return certificates, problems
