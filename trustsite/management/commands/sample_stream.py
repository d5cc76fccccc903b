"""`manage.py sample_stream`: compare the stream's present contents with the registry."""

import time
from collections.abc import Iterator
from json import dumps
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from ingest.records.registry import build_registry
from ingest.stream.inspect import Sample, SampleProblem, listen
from trustsite.worker.worker import stream_from_settings


class Command(BaseCommand):
    """Listen beside any running process; no store is opened or written, so no drive is needed."""

    help = "Listen to the stream for a while. Print collections, shapes of records and unknown fields."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seconds", type=float, default=60.0, help="how long to listen (default 60)")
        parser.add_argument("--back", type=float, metavar="MINUTES", help="begin so long ago instead of now")
        parser.add_argument("--url", help="the server to ask (default: those of JETSTREAM_URLS in turn)")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of text")

    def handle(
        self, *args: object, seconds: float, back: float | None, url: str | None, json: bool, **options: object
    ) -> None:
        """Listen, then print, also after a broken stream or Ctrl-C. Raises CommandError if no frame came."""
        if not 0 < seconds <= 86_400:
            raise CommandError("--seconds is a time between 0 and 86400.", returncode=2)
        since_us = int((time.time() - back * 60) * 1_000_000) if back is not None else None
        sample, problems = Sample(build_registry(settings.LEXICON_AUTHORITY).known_fields), []
        for address in [url] if url else settings.JETSTREAM_URLS:
            problem = self._follow(sample, address, seconds, since_us)
            if problem is None or sample.report()["frames"]:
                break
            problems.append(problem)
        report = sample.report()
        if problems and not report["frames"]:
            raise CommandError(f"{'; '.join(problems)}. Check the network, or name a server with --url.", returncode=1)
        self.stdout.write(dumps(report) if json else "\n".join(_lines(report)))

    def _follow(self, sample: Sample, url: str, seconds: float, since_us: int | None) -> str | None:
        collections = stream_from_settings().collections
        try:
            for frame in tqdm(
                listen(url, collections, seconds, since_us), unit=" frames", desc="sample", mininterval=0.5
            ):
                sample.add(frame)
        except SampleProblem as problem:
            self.stderr.write(str(problem))
            return str(problem)
        except KeyboardInterrupt:
            self.stderr.write("Stopped; what was seen so far:")
        return None


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the report as text: a paragraph for each collection, with a question mark before unknown names."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report["kinds"].items())
    yield f"{report['frames']:,} frames ({kinds or 'nothing'}), {report['unreadable']:,} that cannot be read"
    for name, collection in report["collections"].items():
        operations = ", ".join(f"{count:,} {operation}" for operation, count in collection["operations"].items())
        yield ""
        yield f"{'  ' if collection['registered'] else '? '}{_printable(name)}: {operations}"
        for path, shape in collection["fields"].items():
            mark = "?" if path in collection["unknown_fields"] else " "
            types = ", ".join(f"{_printable(kind)} {count:,}" for kind, count in shape["types"].items())
            yield f"  {mark} {_printable(path)}  in {shape['seen']:,} of {collection['records']:,}: {types}"
        if collection["further_fields"]:
            yield f"    and {collection['further_fields']:,} more sightings of further fields"
    if report["commits_of_further_collections"]:
        yield f"\nand {report['commits_of_further_collections']:,} commits of further collections"
    yield "\n? marks what the registry does not know."


def _printable(name: str) -> str:
    """Return a name from the network without characters that would move the cursor of a terminal."""
    return "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in name)
