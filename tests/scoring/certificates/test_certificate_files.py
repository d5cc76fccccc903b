"""Certificates in their folder, and the command that recomputes one."""

import os
from dataclasses import replace as replace_terms
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from msgspec.structs import replace

from scoring.certificates.certificate import (
    CertificateProblem,
    LaterOutcome,
    encode,
    load_certificate,
    name_of,
    read_bytes,
    read_certificates,
    to_seconds,
    write_certificate,
)
from scoring.certificates.issue import add_later_outcomes, certify
from tests.scoring.certificates.certified_cases import NOW, TERMS, settled

CERTIFICATE = certify(settled(), TERMS, {}, NOW)
LATE = (NOW + timedelta(days=93)).isoformat()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of one certificate."""
    return write_certificate(tmp_path / "certificates", CERTIFICATE)


def verify(file: Path, as_of: str = NOW.isoformat()) -> str:
    """What the command prints. Raises CommandError."""
    out = StringIO()
    call_command("verify_certificate", str(file), "--as-of", as_of, "--no-store", stdout=out)
    return out.getvalue()


def test_a_certificate_is_kept_under_the_digest_of_its_bytes_and_once(file: Path) -> None:
    assert file.stem == name_of(file.read_bytes())
    before = file.stat().st_mtime_ns
    assert write_certificate(file.parent, CERTIFICATE) == file
    assert (file.stat().st_mtime_ns, [one.name for one in file.parent.iterdir()]) == (before, [file.name])
    assert load_certificate(file) == CERTIFICATE


def test_what_is_no_certificate_is_named_and_the_others_count(file: Path) -> None:
    (file.parent / "notes.json").write_text("{}")
    found, problems = read_certificates(file.parent)
    assert list(found.values()) == [CERTIFICATE]
    assert problems == ["notes.json does not count: its name is not the SHA-256 of its bytes."]
    assert read_certificates(file.parent / "nowhere") == ({}, [])


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_certificate(tmp_path, CERTIFICATE)
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_and_a_folder_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CertificateProblem, match="there is no such file"):
            read_bytes(place)


def test_the_command_says_what_is_certified(file: Path) -> None:
    assert verify(file) == (
        "It certifies 95 % for a budget of 10 %: 6 of 300 were bad, by 300 authors; the rate is at most 4.9 %.\n"
        "Attempt 1 spent 0.025 of 0.05; it expires 2026-06-08 12:30:00.\n"
        "It was measured on pull requests that people also reviewed: the true rate without review may be higher.\n"
    )


def test_a_successor_is_told_with_what_became_known(file: Path) -> None:
    row = LaterOutcome("11" * 32, to_seconds(NOW) + 60, 1.0, 0.2)
    more = write_certificate(file.parent, add_later_outcomes(CERTIFICATE, file.stem, [row]))
    later = (NOW + timedelta(hours=1)).isoformat()
    assert verify(more, later).endswith("Since then 1 outcomes became known, 1 of them bad.\n")
    with pytest.raises(CommandError, match="A later outcome of it was known in the future"):
        verify(more)
    file.unlink()
    with pytest.raises(CommandError, match="is missing beside it"):
        verify(more, later)


def test_the_chain_is_followed_to_the_first_and_a_link_that_was_changed_is_found(file: Path) -> None:
    rows = [LaterOutcome(f"{at}{at}" * 32, to_seconds(NOW) + at, 0.0, 1.0) for at in range(1, 4)]
    link, path, links = CERTIFICATE, file, []
    for row in rows:
        link = add_later_outcomes(link, path.stem, [row])
        path = write_certificate(file.parent, link)
        links.append(path)
    later = (NOW + timedelta(hours=1)).isoformat()
    assert verify(path, later).endswith("Since then 3 outcomes became known, 0 of them bad.\n")
    forged = write_certificate(file.parent, replace(link, previous=links[0].stem, later=link.later[1:]))
    with pytest.raises(CommandError, match="It does not keep the later outcomes that were there before"):
        verify(forged, later)
    links[0].write_bytes(links[0].read_bytes().replace(b'"budget":0.1', b'"budget":0.2'))
    with pytest.raises(CommandError, match="The file before it does not count: its name is not the SHA-256"):
        verify(path, later)


def test_a_certificate_of_t_low_is_told_as_one_and_follows_no_other(file: Path) -> None:
    low = certify(settled(), replace_terms(TERMS, side="low"), {file.stem: CERTIFICATE}, NOW)
    assert verify(write_certificate(file.parent, low)).startswith(
        "It certifies T_LOW 50 % for a budget of 10 %: 0 of 294 clean ones scored lower, by 294 authors; the share "
    )
    mixed = write_certificate(file.parent, replace(low, previous=file.stem))
    with pytest.raises(CommandError, match="The file before it is of the other threshold"):
        verify(mixed)


def test_every_difference_ends_the_command_with_an_error(file: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="It expired on 2026-06-08") as expired:
        verify(file, LATE)
    assert expired.value.returncode == 1
    tampered = tmp_path / file.name
    tampered.write_bytes(file.read_bytes().replace(b'"k":6.0', b'"k":5.0'))
    with pytest.raises(CommandError, match="Its name is not the SHA-256") as found:
        verify(tampered)
    assert "It says k = 5.0; recomputed it is 6.0." in str(found.value)


def test_a_file_that_is_none_ends_it_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not a certificate: there is no such file") as missing:
        verify(tmp_path / "nowhere.json")
    assert missing.value.returncode == 2
    (tmp_path / "deep.json").write_bytes(b"[" * 100_000)
    with pytest.raises(CommandError, match=r"It is not a certificate"):
        verify(tmp_path / "deep.json")


def test_an_attempt_that_hides_those_before_it_is_found(file: Path) -> None:
    second = certify(settled(), TERMS, {file.stem: CERTIFICATE}, NOW + timedelta(days=31))
    assert verify(write_certificate(file.parent, second), second.made_at.isoformat()).startswith("It certifies")
    hidden = write_certificate(file.parent, replace(second, previous=None))
    with pytest.raises(CommandError, match="names no earlier file, but it is not a first attempt"):
        verify(hidden, second.made_at.isoformat())
    assert encode(second) != hidden.read_bytes()
