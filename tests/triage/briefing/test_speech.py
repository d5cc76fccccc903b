"""The sound of a text: a bounded child that gets it on standard input, and ElevenLabs, which is off by default."""

import io
import json
import logging
import threading
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.cache import cache
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from tests.ingest.peer import Answer, Peer, Request, Start, response
from tests.waiting import ends_by_itself, wait_for
from triage.access.oauth import client as web_client
from triage.services import speech
from triage.services.speech import ElevenLabs, Espeak, Sound, SpeechBusy, SpeechProblem, choose_voice, speak

KEY, VOICE = "sk_planted_0123456789", "21m00Tcm4TlvDq8ikWAM"
TEXT = "In the inbox: 3 flagged & 41 to review. --help -w /tmp/out.wav"
MP3 = b"ID3\x04" + bytes(2_000)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    cache.clear()
    speech._buy.cache_clear()
    speech._make_wave.cache_clear()
    yield
    cache.clear()


def fake(folder: Path, script: str) -> Espeak:
    """A program that stands where espeak-ng does."""
    program = folder / "espeak-ng"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Espeak(str(program))


def test_espeak_makes_a_whole_wave_file_whose_header_says_its_true_length(espeak: Path) -> None:
    sound = Espeak(str(espeak)).speak(TEXT)
    assert (sound.media_type, sound.ending) == ("audio/wav", "wav")
    with wave.open(io.BytesIO(sound.data)) as told:
        frames = told.readframes(told.getnframes())
        assert len(frames) == told.getnframes() * 2 > 100_000
        assert told.getnchannels() == 1
    assert int.from_bytes(sound.data[4:8], "little") == len(sound.data) - 8


def test_the_text_goes_in_by_standard_input_and_no_word_of_it_is_an_argument(tmp_path: Path) -> None:
    with pytest.raises(SpeechProblem):
        fake(tmp_path, f'echo "$@" > {tmp_path}/argv; cat > {tmp_path}/stdin; env > {tmp_path}/env').speak(TEXT)
    assert (tmp_path / "stdin").read_text() == TEXT
    assert (tmp_path / "argv").read_text().split() == list(speech.OPTIONS)
    assert "DATA_ROOT" not in (tmp_path / "env").read_text(), "it is told nothing of this process"


def test_a_child_that_hangs_is_dead_after_its_time_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert speech.CHILD_SECONDS == 10
    monkeypatch.setattr(speech, "CHILD_SECONDS", 0.5)
    with ends_by_itself(), pytest.raises(SpeechProblem, match=r"took longer than 0\.5 seconds"):
        fake(tmp_path, f"sleep 600 & echo $! $$ > {tmp_path}/started; wait").speak(TEXT)
    for number in (tmp_path / "started").read_text().split():
        status = Path(f"/proc/{number}/status")
        wait_for(lambda status=status: not status.exists() or "State:\tZ" in status.read_text(), what="its end")


def test_a_child_that_never_stops_speaking_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "WAVE_BYTES", 50_000)
    with ends_by_itself(), pytest.raises(SpeechProblem, match="espeak-ng failed"):
        fake(tmp_path, "exec cat /dev/zero").speak(TEXT)


@pytest.mark.parametrize("script", ["exit 3", "echo no sound", "printf 'RIFF\\044\\000\\000\\000WAVE'", ""])
def test_what_is_no_sound_is_said_in_one_sentence(tmp_path: Path, script: str) -> None:
    with pytest.raises(SpeechProblem, match=r"\Aespeak-ng failed, so there is no sound\.\Z"):
        fake(tmp_path, script).speak(TEXT)


def test_where_espeak_is_missing_or_cannot_start_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(SpeechProblem, match="espeak-ng is not installed on this server"):
        Espeak(None).speak(TEXT)
    (tmp_path / "espeak-ng").write_text("#!/bin/sh\n")
    with pytest.raises(SpeechProblem, match="espeak-ng cannot be started: Permission denied"):
        Espeak(str(tmp_path / "espeak-ng")).speak(TEXT)


def test_few_are_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "choose_voice", lambda: Espeak(None))
    for _ in range(speech.AT_ONCE):
        assert speech._places.acquire(blocking=False)
    try:
        with pytest.raises(SpeechBusy):
            speak(TEXT)
    finally:
        for _ in range(speech.AT_ONCE):
            speech._places.release()
    with pytest.raises(SpeechProblem):
        speak(TEXT)


def elevenlabs(request: Request) -> Answer:
    """As their reference has it: a key of theirs and JSON with a text give MP3, anything else is refused."""
    if request.headers.get("xi-api-key") != KEY:
        detail = {"status": "invalid_api_key", "message": "Invalid API key"}
        return response(json.dumps({"detail": detail}).encode(), 401, Content_Type="application/json")
    if not request.path.startswith(f"/v1/text-to-speech/{VOICE}?output_format=mp3_"):
        detail = {"status": "voice_not_found", "message": "A voice with that id was not found."}
        return response(json.dumps({"detail": detail}).encode(), 404, Content_Type="application/json")
    body = json.loads(request.body)
    is_right = request.method == "POST" and isinstance(body.get("text"), str) and body["text"]
    if not is_right or request.headers["content-type"] != "application/json":
        return response(b'{"detail": []}', 422, Content_Type="application/json")
    return response(MP3, Content_Type="audio/mpeg")


@pytest.fixture
def network(start: Start, settings: Settings) -> Iterator[Peer]:
    """ElevenLabs on loopback, where this process finds every host."""
    peer = start(elevenlabs)
    settings.STAND_IN_ORIGIN = peer.origin
    settings.ELEVENLABS_API_KEY, settings.ELEVENLABS_VOICE = KEY, VOICE
    web_client._make_sender.cache_clear()
    yield peer
    web_client._make_sender.cache_clear()


def test_elevenlabs_is_sent_the_text_and_nothing_else_and_each_text_once(network: Peer) -> None:
    sound = speak(TEXT)
    assert (sound.data, sound.media_type, sound.ending) == (MP3, "audio/mpeg", "mp3")
    assert speak(TEXT) == sound
    (asked,) = network.requests
    assert asked.headers["host"] == "api.elevenlabs.io"
    assert json.loads(asked.body) == {"text": TEXT, "model_id": "eleven_multilingual_v2"}
    assert asked.path == f"/v1/text-to-speech/{VOICE}?output_format=mp3_22050_32"


def test_two_who_ask_for_one_text_at_once_pay_for_it_once(network: Peer) -> None:
    together = threading.Barrier(2)

    def ask(_: int) -> Sound:
        together.wait()
        return speak(TEXT)

    with ThreadPoolExecutor(2) as both:
        assert len(set(both.map(ask, range(2)))) == 1
    assert len(network.requests) == 1


def test_by_default_nothing_is_sent_anywhere(settings: Settings) -> None:
    assert settings.ELEVENLABS_API_KEY == ""
    assert isinstance(choose_voice(), Espeak)


@pytest.mark.parametrize(
    ("key", "voice", "said"),
    [
        ("wrong", VOICE, "ElevenLabs refused the key, so there is no sound: check ELEVENLABS_API_KEY."),
        (KEY, "another", "ElevenLabs answered 404, so there is no sound: check ELEVENLABS_VOICE and the account."),
    ],
)
def test_a_refusal_is_said_with_what_to_do(
    network: Peer, settings: Settings, caplog: pytest.LogCaptureFixture, key: str, voice: str, said: str
) -> None:
    caplog.set_level(logging.DEBUG)
    settings.ELEVENLABS_API_KEY, settings.ELEVENLABS_VOICE = key, voice
    with pytest.raises(SpeechProblem) as told:
        speak(TEXT)
    assert str(told.value) == said
    assert said in caplog.text, "the operator reads it too"
    assert key not in caplog.text
    assert key not in repr(choose_voice())
    with pytest.raises(SpeechProblem):
        speak(TEXT)
    assert len(network.requests) == 2, "a failure is not kept"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (response(b"busy", 429, Retry_After="60"), "api.elevenlabs.io answered 429"),
        (response(b"", 500), "api.elevenlabs.io answered 500"),
        (response(b"", 302, Location="https://elsewhere.example/"), "answered 302, a redirect"),
        (response(bytes(1_000_001), Content_Type="audio/mpeg"), "sent more than 1000000 bytes"),
        (response(b"<html>", Content_Type="text/html"), "sent something else than sound"),
        (response(b"", Content_Type="audio/mpeg"), "sent something else than sound"),
        (b"nonsense\r\n\r\n", "the connection to api.elevenlabs.io broke"),
        (b"", "the connection to api.elevenlabs.io broke"),
    ],
)
def test_whatever_comes_back_is_a_sentence_that_does_not_hold_the_key(
    start: Start, caplog: pytest.LogCaptureFixture, answer: bytes, said: str
) -> None:
    caplog.set_level(logging.DEBUG)
    peer = start(lambda request: answer or iter(()))
    fetcher = Fetcher(peer.origin, 5.0)
    with pytest.raises(SpeechProblem) as told:
        ElevenLabs(fetcher, KEY, VOICE).speak(TEXT)
    fetcher.close()
    assert said in str(told.value)
    assert KEY not in str(told.value) + caplog.text
    assert TEXT not in caplog.text


def test_no_more_texts_are_bought_in_a_day_than_its_limit(network: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "MOST_A_DAY", 3)
    for number in range(3):
        speak(f"{number} audits are due.")
    with pytest.raises(SpeechProblem, match="ElevenLabs was sent 3 texts today"):
        speak("4 audits are due.")
    assert speak("2 audits are due.").data == MP3, "what was bought is still there"
    assert len(network.requests) == 3
