"""A trace of each question to a model, to an OTLP collector that the operator names: figures, never a word.

Spans wait in a queue of bounded length for a thread of the exporter's own. A collector that is dead or slow loses
spans; it delays no review and fails none. Importing the exporter costs .3 s, so that happens where one is made.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from scoring.review.anthropic_client import FROM_LEDGER, ModelCall
from scoring.review.costs import Usage

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger(__name__)

SEND_SECONDS = 5.0  # of one try
STOP_SECONDS = 1.0  # in which what waits is sent when the worker stops
EVERY_MS = 2_000
WAITING = 2_048  # spans; beyond that the oldest are lost
Attribute = str | int | float


class Traces:
    """Sends a span for each question. `dollars` is what a usage of a model costs."""

    def __init__(
        self,
        endpoint: str,
        headers: Mapping[str, str],
        dollars: Callable[[str, Usage], float],
        every_ms: int = EVERY_MS,
    ) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        self._dollars = dollars
        resource = Resource({"service.name": "sunstead", "service.namespace": "sunstead.worker"})
        self._provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_exporter(endpoint, headers), WAITING, every_ms, 256))
        self._tracer = self._provider.get_tracer("sunstead.claude")

    def called(self, call: ModelCall) -> None:
        """Leave a span for the exporter; a reading that was found is no question."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        if call.outcome == FROM_LEDGER:
            return
        began = round(call.began * 1e9)
        span = self._tracer.start_span(f"{call.operation} {call.model}", kind=SpanKind.CLIENT, start_time=began)
        span.set_attributes(attributes(call, self._dollars(call.model, call.usage)))
        if call.outcome != "answered":
            span.set_status(Status(StatusCode.ERROR))
        span.end(began + round(call.seconds * 1e9))

    def stop(self) -> None:
        """Send what waits, for a moment; what a slow collector does not take by then is lost."""
        thread = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        thread.start()
        thread.join(STOP_SECONDS)


def attributes(call: ModelCall, dollars: float) -> dict[str, Attribute]:
    """The span's attributes, by the semantic conventions for generative AI; what they have no name for is ours.

    Their input tokens count those of the cache too, which the API counts apart.
    """
    usage = call.usage
    found: dict[str, Attribute | None] = {
        "gen_ai.operation.name": call.operation,
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": call.model,
        "gen_ai.request.temperature": call.temperature,
        "gen_ai.request.max_tokens": call.output_limit,
        "gen_ai.usage.input_tokens": usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cost": dollars,  # as Langfuse and others read it
        "error.type": None if call.outcome == "answered" else call.outcome,
        "sunstead.attempts": call.attempts,
        "sunstead.outcome": call.outcome,
        "sunstead.seconds": call.seconds,
    }
    return {name: value for name, value in found.items() if value is not None}


def _exporter(endpoint: str, headers: Mapping[str, str]) -> "SpanExporter":
    """The exporter: to this address alone, with these headers, whatever the environment says of proxies."""
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from requests import Session

    session = Session()
    session.trust_env, session.max_redirects = False, 0
    return OTLPSpanExporter(
        endpoint=endpoint, headers=dict(headers), timeout=SEND_SECONDS, compression=Compression.Gzip, session=session
    )
