"""The sound of a briefing is heard back by a recogniser of speech, which has to find its numbers."""

import io
import re
import wave
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy.signal import resample_poly

from tests.conftest import count
from triage.presenters.briefing import MOST_SECONDS, Morning, Oldest, write_lines
from triage.services.speech import Espeak

NOW = datetime(2026, 11, 26, 6)
ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
ONES += ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
NUMBERS = {*ONES, *TENS, "hundred", "and"}
# Any number below a thousand may stand where one is; the recogniser is told the other words of the text.
GRAMMAR = """#JSGF V1.0;
grammar briefing;
<one> = one|two|three|four|five|six|seven|eight|nine;
<teen> = ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen;
<below> = <one> | <teen> | (twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety) [<one>];
<number> = zero | <below> | <one> hundred [[and] <below>];
public <text> = {words};
"""
RATE = 16_000  # of the model


def spelled(number: int) -> str:
    """A number below a thousand in words, without "and"."""
    hundreds, rest = divmod(number, 100)
    below = ONES[rest] if rest < 20 else f"{TENS[rest // 10 - 2]}{f' {ONES[rest % 10]}' if rest % 10 else ''}"
    return below if not hundreds else f"{ONES[hundreds]} hundred{f' {below}' if rest else ''}"


def morning(draws: Random) -> Morning:
    """A drawn one, with ten numbers."""

    def some() -> int:
        return draws.choice((draws.randint(2, 20), draws.randint(20, 99), draws.randint(100, 400)))

    lanes = {"needs_human": some(), "normal_queue": some(), "fast_lane": some(), "would_be_fast_lane": some()}
    return Morning(
        now=NOW,
        since=NOW - timedelta(days=draws.randint(2, 30)),
        lanes=lanes,  # ty: ignore[invalid-argument-type] - the keys of a literal
        added=some(),
        oldest=Oldest("normal_queue", "lantern", NOW - timedelta(days=some()), "at://x/y/z"),
        audits=some(),
        incidents=some(),
        lanes_known=20,
        lanes_shut=("cabin",),
        closures=some(),
    )


def heard(hearing: Any, text: str, sound: bytes) -> str:
    """The words that a recogniser hears."""
    words = [re.sub(r"\A\d+\Z", "<number>", word) for word in re.findall(r"[a-z]+|\d+", text.lower())]
    with wave.open(io.BytesIO(sound)) as told:
        frames, rate = np.frombuffer(told.readframes(told.getnframes()), "<i2"), told.getframerate()
    assert len(frames) / rate < MOST_SECONDS
    resampled = resample_poly(frames.astype(float), RATE, rate).clip(-32_768, 32_767).astype("<i2")
    decoder = hearing.Decoder(samprate=RATE, lm=None, loglevel="FATAL")
    decoder.add_word("maintainers", "M EY N T EY N ER Z", update=True)
    decoder.add_jsgf_string("briefing", GRAMMAR.format(words=" ".join(words)))
    decoder.activate_search("briefing")
    decoder.start_utt()
    decoder.process_raw(resampled.tobytes(), full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return found.hypstr if found else ""


def test_four_in_five_numbers_of_a_briefing_are_heard_in_its_sound(espeak: Path, hearing: Any) -> None:
    right = total = 0
    for seed in range(count(1, 20)):
        text = " ".join(line.said for line in write_lines(morning(Random(seed))))
        told = heard(hearing, text, Espeak(str(espeak)).speak(text).data)
        runs = [" ".join(group) for is_number, group in groupby(told.split(), NUMBERS.__contains__) if is_number]
        numbers = [" ".join(word for word in run.split() if word != "and") for run in runs if run != "and"]
        said = [spelled(int(number)) for number in re.findall(r"\d+", text)]
        total += len(said)
        right += sum(one == other for one, other in zip(said, numbers, strict=False))
    assert total >= 10
    assert right >= 0.8 * total, f"{right} of {total}"
