"""What a backfill asks, from the settings."""

from django.conf import settings

from ingest.backfill.sources import Sources
from ingest.clock import Clock
from ingest.net import Fetcher
from ingest.records import build_registry


def sources(fetcher: Fetcher, clock: Clock) -> Sources:
    """The hosts that know which accounts keep our records, and every collection that is read."""
    return Sources(
        fetcher=fetcher,
        plc_url=settings.PLC_URL,
        hosts=tuple(settings.BACKFILL_HOSTS),
        collections=tuple(build_registry(settings.LEXICON_AUTHORITY).kinds),
        staging_dir=settings.STAGING_DIR,
        clock=clock,
    )
