"""The JSON log: one line a record, nothing personal but DIDs, and no folder or drive that stops a process."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from triage import middleware
from trustsite.logs import HIDDEN, KeptFile, LineFormatter, keep_log, said

DID = "did:plc:" + "a" * 24
URI = f"at://{DID}/sh.example.repo.pull/3kabcdefghij2"
TOKEN, LINK = "sunstead_" + "T" * 43, "Zq" * 21
PASSWORD, COOKIE, HANDLE, TITLE = "correct-horse-battery", "c00kie" * 5, "ana.example.org", "Sort pears by weight"
ADDRESS, BODY = "198.51.100.77", "-----BEGIN PRIVATE KEY-----"
SECRETS = (TOKEN, LINK, PASSWORD, COOKIE)
PERSONAL = (*SECRETS, HANDLE, TITLE, ADDRESS, BODY)
log = logging.getLogger("trustsite.planted")


@pytest.fixture
def file(settings: Settings, tmp_path: Path) -> Iterator[Path]:
    """The log of a process, which this one keeps for as long as a test takes."""
    settings.LOG_DIR = tmp_path / "logs"
    keep_log("web")
    yield settings.LOG_DIR / "web.jsonl"
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, KeptFile)]:
        root.removeHandler(handler)
        handler.close()


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def record(message: str, *values: object, name: str = "scoring.x") -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, __file__, 1, message, values, None)


def test_a_record_is_one_line_of_json_with_its_place(file: Path) -> None:
    log.warning("%d of %s wait\nfor %.1f s, says %s", 3, DID, 2.5, HANDLE)
    (line,) = lines(file)
    assert line["message"] == f"3 of {DID} wait\nfor 2.5 s, says {HIDDEN}"
    assert (line["level"], line["logger"], line["process"]) == ("WARNING", "trustsite.planted", "web")
    assert str(line["where"]).startswith("test_logs:")
    assert str(line["time"]).endswith("Z")


def test_what_is_less_than_the_level_is_not_kept(file: Path) -> None:
    log.info("nothing")
    assert not file.exists()


@pytest.mark.parametrize("value", [DID, URI, "did:web:example.org", "score_everyone", 7, 0.5, True, None])
def test_dids_at_uris_numbers_and_names_of_steps_pass(value: object) -> None:
    assert said(record("it is %s", value)) == f"it is {value}"


@pytest.mark.parametrize("value", [*PERSONAL, f"{DID} {HANDLE}", f"{URI}?{TOKEN}", f"{DID}\n", ValueError(TITLE)])
def test_nothing_else_passes(value: object) -> None:
    told = said(record("it is %s", value))
    assert told in (f"it is {HIDDEN}", "it is ValueError")


@given(st.text(min_size=1, max_size=40))
def test_no_text_that_is_no_name_of_ours_passes(value: str) -> None:
    assert said(record("x %s y", f"{value} {DID}")) == f"x {HIDDEN} y"


def test_a_message_of_others_that_is_made_of_values_is_hidden_whole() -> None:
    assert said(record(f"opened {ADDRESS}", name="waitress")) == HIDDEN
    assert said(record("opened %s", ADDRESS, name="waitress")) == f"opened {HIDDEN}"
    assert said(record("%(who)s", {"who": TITLE}, name="waitress")) == "%(who)s"
    assert said(record("%d people", HANDLE)) == "%d people"


def test_an_error_is_told_by_its_kind_and_its_lines_of_code_without_its_words(file: Path) -> None:
    try:
        try:
            raise KeyError(PASSWORD)
        except KeyError as error:
            raise OSError(28, f"no room for {TITLE}") from error
    except OSError:
        log.exception("it failed")
    (line,) = lines(file)
    told = line["error"]
    assert (told["type"], told["errno"], told["cause"]) == ("OSError", 28, "KeyError")
    assert any("test_an_error_is_told" in frame for frame in told["frames"])
    assert not any(secret in file.read_text() for secret in PERSONAL)


@pytest.mark.django_db
def test_planted_secrets_are_in_no_log_line_and_the_lines_name_the_request(
    file: Path, client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.PUBLIC_READ = True
    client.raise_request_exception = False
    stderr = logging.StreamHandler()
    stderr.setFormatter(logging.Formatter("%(message)s"))
    logging.getLogger().addHandler(stderr)
    client.cookies["sessionid"] = COOKIE
    headers = {"authorization": f"Bearer {TOKEN}", "x-forwarded-for": ADDRESS, "x-request-id": COOKIE}
    missing = client.get(f"/nowhere/{HANDLE}", {"title": TITLE}, headers=headers, REMOTE_ADDR=ADDRESS)
    client.get(f"/sign-in/{LINK}", headers=headers)
    for place in ("data", "decision"):
        client.get(f"/c/{DID}/{place}/{LINK}", headers=headers)
    client.get(f"/feed/{TOKEN}.atom", headers=headers)
    client.post(f"/c/{DID}/objection", {"text": BODY, "link": LINK}, headers=headers)
    client.post("/sign-in", {"handle": HANDLE, "password": PASSWORD}, REMOTE_ADDR=ADDRESS)
    client.post("/review/pr", {"diff": BODY, "title": TITLE}, "application/json", headers=headers)

    def fail(*arguments: object, **named: object) -> None:
        raise RuntimeError(f"{HANDLE} {TITLE} {BODY}")

    monkeypatch.setattr(middleware, "snapshot_reader", fail)
    assert client.get("/leaderboard", headers=headers).status_code == 500
    logging.getLogger("django.request").error("Failed: %s", f"/c/{HANDLE}", exc_info=RuntimeError(TITLE))
    logging.getLogger().removeHandler(stderr)
    text, shown = file.read_text(), capsys.readouterr().err
    assert [secret for secret in PERSONAL if secret in text] == []
    assert [secret for secret in SECRETS if secret in shown] == []
    first, failed = lines(file)[0], lines(file)[-2]
    assert (failed["status"], failed["route"], failed["error"]["type"]) == (500, "none", "RuntimeError")
    assert (first["status"], first["route"], first["request_id"]) == (404, "none", missing["X-Request-Id"])


def test_the_files_are_of_bounded_size_and_number(tmp_path: Path) -> None:
    handler = KeptFile(tmp_path / "a.jsonl", 2_000, 3)
    handler.setFormatter(LineFormatter("web"))
    for number in range(100):
        handler.emit(record("%d %d", number, 10**20))
    handler.close()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"a.jsonl", "a.jsonl.1", "a.jsonl.2"}
    assert max(sizes.values()) <= 2_000
    assert all((path.stat().st_mode & 0o077) == 0 for path in tmp_path.iterdir())
    assert lines(tmp_path / "a.jsonl")[-1]["message"] == f"99 {10**20}"


def test_a_folder_that_cannot_be_written_is_told_once_and_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    folder.write_text("a file where the folder would be")  # root may write to a read-only folder
    handler = KeptFile(folder / "web.jsonl", 10_000, 2)
    handler.setFormatter(LineFormatter("web"))
    for number in range(3):
        handler.emit(record("%d", number))
    assert capsys.readouterr().err.count("cannot be written") == 1
    folder.unlink()
    handler.emit(record("%d", 3))
    assert capsys.readouterr().err == f"{folder / 'web.jsonl'} is back.\n"
    assert [line["message"] for line in lines(folder / "web.jsonl")] == ["3"]
    handler.close()


def test_a_full_drive_loses_lines_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = KeptFile(tmp_path / "web.jsonl", 10_000, 2)
    handler.setFormatter(LineFormatter("web"))
    handler._is_in_place = lambda stream: True
    for _ in range(3):
        handler.stream = os.fdopen(os.open("/dev/full", os.O_WRONLY), "a")
        handler.maxBytes = 0  # a device has no size
        handler.emit(record("a line"))
    told = capsys.readouterr().err
    assert told.count("No space left on device") == 1
    handler.emit(record("%d", 4))
    assert lines(tmp_path / "web.jsonl")[0]["message"] == "4"
    handler.close()


def test_a_line_goes_to_the_file_that_an_erasure_put_in_place(file: Path) -> None:
    log.warning("about %s", DID)
    draft = file.with_suffix(".draft")
    draft.write_text("")
    draft.replace(file)
    log.warning("after")
    assert [line["message"] for line in lines(file)] == ["after"]


def test_a_link_in_the_place_of_the_file_is_not_followed(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    (tmp_path / "other").write_text("")
    file.symlink_to(tmp_path / "other")
    log.warning("nothing")
    assert (tmp_path / "other").read_text() == ""


def test_keeping_the_log_again_writes_each_line_once(file: Path) -> None:
    keep_log("web")
    log.warning("once")
    assert len(lines(file)) == 1
