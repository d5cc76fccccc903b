"""Builds the prompts of the reviewing models: the role, the data between two marks, and the contract after them.

Pure functions of the scrubbed content and the site's key. The mark is a keyed hash of the data, so the author cannot
know it, and it changes only with the content.
"""

import hashlib
import hmac
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

from scoring.review.anthropic_client import Block, Request
from scoring.review.payload import RENDERING, Rendering
from scoring.review.schema import Assessment

PARTS = ("prompt.md", "prompt_change.md", "prompt_masked.md", "prompt_contract.md", "prompt_words.md")


@cache
def prompt_part(name: str) -> str:
    """Return the text of one of PARTS without the newline at its end."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8").rstrip("\n")


@cache
def prompt_version() -> str:
    """Return 16 hex digits that change with the fixed text of the prompt, the schema and the rendering."""
    schema = json.dumps(Assessment.model_json_schema(), sort_keys=True)
    prompt_text = "\x00".join([*map(prompt_part, PARTS), schema, str(RENDERING)])
    return hashlib.sha256(prompt_text.encode()).hexdigest()[:16]


def content_hash(change: Rendering, words: Rendering | None) -> str:
    """Return the SHA-256 in hex of all data about one pull request that a model is given."""
    parts = [change.text] if words is None else [change.text, words.text]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def nonce(key: bytes, data: str) -> str:
    """Return the mark around this data: 32 hex digits of its HMAC-SHA256 under the site's key."""
    return hmac.digest(key, data.encode(), hashlib.sha256).hex()[:32]


def first_request(model: str, change: Rendering, key: bytes, cached: bool = False, masked: bool = False) -> Request:
    """Build the request of the first pass: diff, findings and the contract.

    `cached`: a second pass over the same data follows. `masked`: the words of the change are masked, and the prompt
    says so.
    """
    mark = nonce(key, change.text)
    data = Block(_fill_part("prompt_change.md", mark, change.text), cached)
    contract = _fill_part("prompt_contract.md", mark)
    if masked:
        contract = f"{prompt_part('prompt_masked.md')}\n{contract}"
    return Request(model, prompt_part("prompt.md"), (data, Block(contract)), (mark,))


def second_request(model: str, change: Rendering, words: Rendering, key: bytes) -> Request:
    """Build the request of the second pass: the whole change, then title, description and discussion."""
    first = first_request(model, change, key, cached=True)
    mark = nonce(key, words.text)
    blocks = (first.blocks[0], Block(_fill_part("prompt_words.md", mark, words.text)))
    return replace(first, blocks=blocks, nonces=(*first.nonces, mark))


def _fill_part(part_name: str, mark: str, data: str = "") -> str:
    """Put the mark and then the data into a part of the prompt; nothing within the data is replaced."""
    before, placeholder, after = prompt_part(part_name).replace("NONCE", mark).partition("DATA\n")
    return f"{before}{data}\n{after}" if placeholder else before
