"""Certificates in their folder: each a file that is named by its bytes and never changed."""

from pathlib import Path

from ingest.durable import write_whole
from scoring.learning.certificate import LARGEST, Certificate, CertificateProblem, decode, encode, name_of

ENDING = ".json"
MOST = 10_000  # files of a folder that are read: one a month and model, and their successors


def keep_certificate(folder: Path, certificate: Certificate) -> Path:
    """Write a certificate below `folder`, whole and on the drive before this returns; returns its file. Again: none."""
    data = encode(certificate)
    place = folder / f"{name_of(data)}{ENDING}"
    if place.exists():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(place, data)
    return place


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
    found, problems = {}, []
    paths = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
    if len(paths) > MOST:
        raise CertificateProblem(f"the folder has more than {MOST:,} certificates")
    for path in paths:
        try:
            found[path.name.removesuffix(ENDING)] = load_certificate(path)
        except CertificateProblem as problem:
            problems.append(f"{path.name[:80]} does not count: {problem}.")
    return found, problems
