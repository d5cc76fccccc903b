"""The sound of a text: by espeak-ng on this machine or, where the operator chose it, by ElevenLabs.

Both are given the sentences of a briefing alone, which hold counts, ages and names of repositories. espeak-ng is a
child with bounds on its time and its output; it reads the text from standard input, so no word of it is an option.
ElevenLabs is asked through the guarded fetcher. Every text costs money there, so it is sent once, and few are sent in a
day.
"""

import io
import json
import logging
import os
import shutil
import signal
import subprocess
import threading
import time
import wave
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Protocol, cast

from django.conf import settings

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from triage.access import throttle
from triage.access.oauth.client import web_sender

PROGRAM = "espeak-ng"
# Of its voices this one is understood best: pocketsphinx heard 234 of 240 numbers, of the plain one 15 of 27.
OPTIONS = ("-v", "en-us+f5", "-s", "160", "-b", "1", "--stdin", "--stdout")  # words a minute, UTF-8
CHILD_SECONDS = 10.0
WAVE_BYTES, MP3_BYTES = 8_000_000, 1_000_000  # 90 s take 4,000,000 and 400,000
ELEVENLABS = "https://api.elevenlabs.io"
MODEL, MP3 = "eleven_multilingual_v2", "mp3_22050_32"
MOST_A_DAY, DAY = 100, 86_400  # texts that ElevenLabs is sent, and seconds
REMEMBERED = 4  # sounds of espeak-ng: players ask for one in parts
AT_ONCE = 2  # of the web process's 8 threads
log = logging.getLogger(__name__)
_places = threading.BoundedSemaphore(AT_ONCE)


class SpeechProblem(Exception):
    """There is no sound; the message is one sentence that gives the reason."""


class SpeechBusy(Exception):
    """No more sounds can be made just now; try again in a few seconds."""


@dataclass(frozen=True, slots=True)
class Sound:
    """A sound file: its bytes, its media type, and the ending of its name."""

    data: bytes = field(repr=False)
    media_type: str
    ending: str


class Voice(Protocol):
    """A way to make the sound of a text."""

    def speak(self, text: str) -> Sound:
        """Return the sound. Raises SpeechProblem."""
        ...


@dataclass(frozen=True, slots=True)
class Espeak:
    """espeak-ng at the path `program`; None: it is not installed."""

    program: str | None

    def speak(self, text: str) -> Sound:
        """Return the text as WAV. Raises SpeechProblem."""
        if self.program is None:
            raise SpeechProblem(f"{PROGRAM} is not installed on this server, so there is no sound.")
        return Sound(_make_wave(self.program, text), "audio/wav", "wav")


@lru_cache(maxsize=REMEMBERED)
def _make_wave(program: str, text: str) -> bytes:
    return _mend_header(_run_bounded((program, *OPTIONS), text.encode()))


def _run_bounded(command: tuple[str, ...], given: bytes) -> bytes:
    """Return the standard output of a child that reads `given`. Raises SpeechProblem if it fails or breaks a bound."""
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
    except OSError as problem:
        raise SpeechProblem(f"{PROGRAM} cannot be started: {problem.strerror}.") from problem
    timer = threading.Timer(CHILD_SECONDS, _kill_group, (child,))
    timer.start()
    with cast(IO[bytes], child.stdout) as output:
        with suppress(BrokenPipeError), cast(IO[bytes], child.stdin) as text:
            text.write(given)
        sound = output.read(WAVE_BYTES + 1)
    _end(child, timer)
    if time.monotonic() - began >= CHILD_SECONDS:
        raise SpeechProblem(f"{PROGRAM} took longer than {CHILD_SECONDS:g} seconds, so there is no sound.")
    if len(sound) > WAVE_BYTES or child.returncode:
        raise SpeechProblem(f"{PROGRAM} failed, so there is no sound.")
    return sound


def _end(child: subprocess.Popen[bytes], timer: threading.Timer) -> None:
    """Wait for a child whose output is closed, and kill what it left behind.

    It is reaped last: until then its number stays its own, and the timer kills nobody else.
    """
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    timer.cancel()
    timer.join()
    _kill_group(child)
    child.wait()


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _mend_header(sound: bytes) -> bytes:
    """Return a WAV with its true length: where espeak-ng writes into a pipe, its header says two gigabytes."""
    mended = io.BytesIO()
    try:
        with wave.open(io.BytesIO(sound)) as told, wave.open(mended, "wb") as written:
            written.setparams(told.getparams()._replace(nframes=0))
            written.writeframes(told.readframes(told.getnframes()))
    except (wave.Error, EOFError) as problem:
        raise SpeechProblem(f"{PROGRAM} failed, so there is no sound.") from problem
    return mended.getvalue()


@dataclass(frozen=True, slots=True)
class ElevenLabs:
    """The text-to-speech of ElevenLabs, with the operator's key and the id of a voice."""

    fetcher: Fetcher
    key: str = field(repr=False)
    voice: str

    def speak(self, text: str) -> Sound:
        """Return the text as MP3, asked for once while this process runs. Raises SpeechProblem."""
        with _buying:
            return _buy(self, text)

    def ask(self, text: str) -> Sound:
        """Ask for the text as MP3. Raises SpeechProblem."""
        if throttle.count("speech", "elevenlabs", DAY, time.time()) > MOST_A_DAY:
            raise SpeechProblem(f"ElevenLabs was sent {MOST_A_DAY} texts today, so there is no sound until tomorrow.")
        headers = {"xi-api-key": self.key, "Content-Type": "application/json", "Accept": "audio/mpeg"}
        body = json.dumps({"text": text, "model_id": MODEL}).encode()
        address = f"{ELEVENLABS}/v1/text-to-speech/{self.voice}?output_format={MP3}"
        try:
            answer = self.fetcher.exchange("POST", address, headers, body, MP3_BYTES)
        except FetchProblem as problem:
            raise SpeechProblem(f"ElevenLabs made no sound: {problem}.") from problem
        if answer.status in (401, 403):
            raise SpeechProblem("ElevenLabs refused the key, so there is no sound: check ELEVENLABS_API_KEY.")
        if answer.status != 200:
            raise SpeechProblem(
                f"ElevenLabs answered {answer.status}, so there is no sound: check ELEVENLABS_VOICE and the account."
            )
        if not answer.headers["content-type"].startswith("audio/mpeg") or not answer.body:
            raise SpeechProblem("ElevenLabs sent something else than sound.")
        return Sound(answer.body, "audio/mpeg", "mp3")


_buying = threading.Lock()  # two who ask for one text at once pay once


@lru_cache(maxsize=MOST_A_DAY)
def _buy(voice: ElevenLabs, text: str) -> Sound:
    return voice.ask(text)


def choose_voice() -> Voice:
    """Return the voice of this site: ElevenLabs where its key is set, else espeak-ng."""
    if settings.ELEVENLABS_API_KEY:
        return ElevenLabs(web_sender().fetcher, settings.ELEVENLABS_API_KEY, settings.ELEVENLABS_VOICE)
    return Espeak(shutil.which(PROGRAM))


def speak(text: str) -> Sound:
    """Return the sound of a text in this site's voice. Raises SpeechProblem, which is logged, and SpeechBusy."""
    if not _places.acquire(blocking=False):
        raise SpeechBusy
    try:
        return choose_voice().speak(text)
    except SpeechProblem as problem:
        log.warning("%s", problem)
        raise
    finally:
        _places.release()
