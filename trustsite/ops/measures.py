"""What the worker counts and times as it happens, for Prometheus. Labels are names of ours: hops, models, reasons."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from scoring.claude_calls import FOUND, ModelCall
from scoring.claude_models import Price, Usage

HOP_SECONDS = (0.01, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)
PUBLISH_SECONDS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CALL_SECONDS = (0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 360.0)
TOKEN_KINDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_write": "cache_write_tokens",
    "cache_read": "cache_read_tokens",
}


class Measures:
    """The counters and histograms of one worker, in a registry of their own."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        """`prices` has a price for every model that is asked."""
        self.registry = registry = CollectorRegistry(auto_describe=False)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        self._prices = prices
        self._hops = Histogram(
            "sunstead_hop_duration_seconds",
            "One run of a step of the work.",
            ["hop"],
            registry=registry,
            buckets=HOP_SECONDS,
        )
        self._failures = Counter("sunstead_hop_failures", "Runs that failed.", ["hop"], registry=registry)
        self._publish = Histogram(
            "sunstead_publish_duration_seconds",
            "One snapshot, without waiting for a pass or a writer.",
            registry=registry,
            buckets=PUBLISH_SECONDS,
        )
        self._add_claude(registry)

    def _add_claude(self, registry: CollectorRegistry) -> None:
        model, told = ["model"], "Of questions for a review: "
        self._calls = Counter(
            "sunstead_claude_calls", f"{told}how they ended.", [*model, "operation", "outcome"], registry=registry
        )
        self._attempts = Counter("sunstead_claude_attempts", f"{told}requests sent.", model, registry=registry)
        self._seconds = Histogram(
            "sunstead_claude_call_duration_seconds",
            f"{told}seconds with every attempt.",
            [*model, "operation"],
            registry=registry,
            buckets=CALL_SECONDS,
        )
        self._tokens = Counter("sunstead_claude_tokens", f"{told}tokens billed.", [*model, "kind"], registry=registry)
        self._dollars = Counter("sunstead_claude_dollars", f"{told}dollars.", model, registry=registry)
        self._found = Counter(
            "sunstead_claude_readings_found", "Readings that were there already, for nothing.", model, registry=registry
        )

    def ran(self, hop: str, seconds: float, failed: bool) -> None:
        """A hop ran."""
        self._hops.labels(hop).observe(seconds)
        self._failures.labels(hop).inc(failed)

    def published(self, seconds: float) -> None:
        """A snapshot was published."""
        self._publish.observe(seconds)

    def called(self, call: ModelCall) -> None:
        """A model was asked, or its reading found."""
        if call.outcome == FOUND:
            self._found.labels(call.model).inc()
            return
        self._calls.labels(call.model, call.operation, call.outcome).inc()
        self._attempts.labels(call.model).inc(call.attempts)
        self._seconds.labels(call.model, call.operation).observe(call.seconds)
        for kind, field in TOKEN_KINDS.items():
            self._tokens.labels(call.model, kind).inc(getattr(call.usage, field))
        self._dollars.labels(call.model).inc(self.dollars(call.model, call.usage))

    def dollars(self, model: str, usage: Usage) -> float:
        """What this usage cost."""
        return self._prices[model].dollars(usage)
