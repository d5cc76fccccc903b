"""What is said on the pages of a receiver that takes nothing; nothing where there is none or all is well."""

from datetime import datetime, timedelta

from django.conf import settings

from triage.models import WebhookDelivery

KEPT = timedelta(days=7)  # for which a delivery that is over is kept
OFTEN = 3  # tries in vain after which it is worth a word: 20 minutes


def webhook_notes(now: datetime) -> tuple[str, ...]:
    """A sentence on messages that were given up, and one on those that wait in vain."""
    if not settings.WEBHOOK_URL:
        return ()
    lost = WebhookDelivery.objects.filter(given_up_at__gte=now - KEPT).count()
    waiting = WebhookDelivery.objects.filter(due_at__isnull=False, tries__gte=OFTEN).count()
    told = (
        (
            lost,
            f"The webhook's receiver did not accept {lost:,} of the last messages within a day: they were given up.",
        ),
    )
    told += (
        (waiting, f"The webhook's receiver is not taking messages: {waiting:,} were tried {OFTEN} times or more."),
    )
    return tuple(sentence for count, sentence in told if count)
