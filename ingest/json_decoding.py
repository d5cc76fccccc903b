"""Decode JSON into types, safely from many threads.

msgspec learns a type when it is first decoded, and a second thread may use a half-learned type: with a nested type,
four threads at once end the process by a segmentation fault (0.22.0, and a web process under load).
"""

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_learning = Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode the data as a `kind`. Raises the errors of msgspec.json.decode."""
    with _learning:
        decoder = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder.decode(data)
