"""Words to the reviewer: what the classifier finds and what two passes cost: `python -m tests.bench.bench_prose`.

One line of JSON each. `left_out`: for each language, the share that a model finds of 100 phrasings in it when it
learned all others; `forms`: the same for each form of attempt, in all languages. `passes`: dollars of input of 400
real diffs with a title and a description, and bare, at four characters a token and the prices of Sonnet 4.6, when the
first pass has all words and when they are masked; `unmasked`: the share of diffs that have none. `milliseconds`: CPU
of the classifier for 200 lines, and of masking a diff, median and 95th percentile.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import thread_time

import numpy as np

from scoring.review.anthropic_client import Request
from scoring.review.payload import Case, render_change, render_words
from scoring.review.prompt import first_request, prompt_part, second_request
from scoring.scanners._normalise import fold, folded
from scoring.scanners._prose import Model, pieces, scores, shipped_model, suspects
from scoring.scanners.prompt_injection import LIKELY
from scoring.scanners.submission import Submission
from scoring.training.prose import train
from scoring.training.prose_grammar import FORMS, attempts, grammar
from tests.scoring.scanners.real_diffs import real_submissions
from tests.sources import PROJECT

MODEL, KEY, ROOM = "claude-sonnet-4-6", b"k" * 32, 180_000
INPUT, WRITTEN, READ = 3.0, 3.75, 0.3  # dollars for a million tokens
SCHEMA = 3_600  # characters of the tool and its schema
CACHED = 1_024  # tokens from which a cache keeps them
TITLE, SAID = "Fix the reader", "It closes the file now, which it did not before. Adds a test."


def share_found(texts: Sequence[str], model: Model) -> float:
    """The share of texts that reach LIKELY."""
    blocks = [list(pieces(fold(text).encode())) for text in texts]
    return float(np.mean([max(block, default=-np.inf) >= LIKELY for block in scores(blocks, model)]))


def found_when_left_out() -> dict[str, dict[str, float]]:
    """The share found of each language and of each form by a model that never saw it."""
    languages, forms = {}, {}
    for language in sorted(grammar()):
        model = train([one for one in grammar() if one != language], number=3_000)
        languages[language] = share_found([text for _, text in attempts(100, [language], seed=7)], model)
    for form in FORMS:
        model = train(list(grammar()), [one for one in FORMS if one != form], number=3_000)
        forms[form] = share_found([text for _, text in attempts(330, grammar(), [form], seed=7)], model)
    return {"left_out": languages, "forms": forms}


def tokens(request: Request) -> float:
    """Input tokens at four characters each."""
    return (len(request.system) + SCHEMA + sum(len(block.text) for block in request.blocks)) / 4


def dollars(case: Case) -> dict[str, float]:
    """Dollars of input of one reading, with the words in the first pass and without."""
    change, masked = render_change(case, ROOM), render_change(case, ROOM, masked=True)
    words = render_words(case.scrubbed)
    whole, bare = first_request(MODEL, change, KEY), first_request(MODEL, masked, KEY, masked=True)
    second = second_request(MODEL, change, words, KEY) if words else whole
    kept = (len(prompt_part("prompt.md")) + SCHEMA + len(whole.blocks[0].text)) / 4
    twice = kept * (WRITTEN + READ) + (tokens(whole) + tokens(second) - 2 * kept) * INPUT
    before = twice if kept >= CACHED else (tokens(whole) + tokens(second)) * INPUT
    same = masked.text == change.text
    return {
        "unmasked": float(same),
        "worded": before,
        "worded, masked": before if same else (tokens(bare) + tokens(second)) * INPUT,
        "bare": tokens(whole) * INPUT,
        "bare, masked": tokens(whole) * INPUT + (0 if same else tokens(bare) * INPUT),
    }


def milliseconds(work: Callable[[], object]) -> float:
    """CPU of one call."""
    start = thread_time()
    work()
    return (thread_time() - start) * 1000


def main() -> None:
    """Print the three lines."""
    diffs = [one for _, one in real_submissions(PROJECT.parent / "shared", 400) if one.change.files]
    cases = [Case.of(replace(one, title=TITLE, description=SAID), ()) for one in diffs]
    costs = [dollars(case) for case in cases]
    told = {name: [cost[name] for cost in costs] for name in costs[0]}
    say(
        {
            "passes": {
                name: round(float(np.mean(values)) / (1 if name == "unmasked" else 1e6), 4)
                for name, values in told.items()
            }
        }
    )
    read = [folded(Submission(one.change)) for one in diffs]
    per_line = [milliseconds(lambda text=text: list(suspects(text, shipped_model()))) for text in read]
    masking = [milliseconds(lambda case=case: render_change(case, ROOM, masked=True)) for case in cases]
    lines = sum(len(text.sources) for text in read)
    say(
        {
            "milliseconds": {
                "classifier": 200 * sum(per_line) / lines,
                "masking": np.quantile(masking, [0.5, 0.95]).tolist(),
            }
        }
    )
    say(found_when_left_out())


def say(told: object) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
