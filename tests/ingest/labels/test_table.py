"""A query reads pages of labels in order, and no more of the table than it answers with."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection

from ingest.labels.table import LabelTable
from tests.conftest import Count
from tests.ingest.labels.world import SOURCE, lane, now, pull_uri
from triage.models import Label
from triage.services.publishing.labels import DAY, update_labels

pytestmark = pytest.mark.django_db(transaction=True)
STEPS = 100  # instructions of SQLite between two ticks
MOST = 1_500  # of them; reading the whole table takes 6,900


@pytest.fixture
def table(tmp_path: Path) -> Iterator[LabelTable]:
    name = Path(connection.settings_dict["NAME"])
    with closing(LabelTable(name, SOURCE, tmp_path / "keys" / "label")) as opened:
        yield opened


def author(number: int) -> str:
    return f"did:plc:{'a' * 20}{number:04d}"


def pages(table: LabelTable, patterns: list[str], limit: int) -> list[str]:
    """All URIs that a reader gets who goes on from page to page."""
    read = [""]
    while page := table.find(patterns, read[-1], 0, limit):
        assert len(page) <= limit
        read += [label.fields["uri"] for label in page]
    return read[1:]


def test_pages_have_each_label_that_matches_once_in_the_order_of_uris(table: LabelTable, count: Count) -> None:
    uris = [pull_uri(number, author(number % 7)) for number in range(60)]
    update_labels([lane(uri) for uri in random.Random(1).sample(uris, 60)], now())
    draws = random.Random(2)
    for _ in range(count(40, 1_000)):
        cut = [draws.choice(uris)[: draws.randrange(1, 70)] for _ in range(draws.randrange(1, 20))]
        patterns = [f"{text}*" if draws.random() < 0.7 else draws.choice(uris) for text in cut]
        wanted = {
            uri for uri in uris for one in patterns if (uri.startswith(one[:-1]) if one[-1] == "*" else uri == one)
        }
        assert pages(table, patterns, draws.randrange(1, 20)) == sorted(wanted)


def test_twenty_prefixes_read_little_of_the_table_however_few_labels_match(table: LabelTable) -> None:
    numbers = range(5_000)
    rows = [Label(seq=n, uri=pull_uri(n, author(n // 10)), cid="c", val="needs-human", exp=DAY) for n in numbers]
    Label.objects.bulk_create(rows, batch_size=500)
    ticks = []
    table._file.set_progress_handler(lambda: ticks.append(0), STEPS)
    few = [f"at://{author(number)}/*" for number in range(0, 40, 2)]
    assert len(table.find(few, "", 0, 250)) == 200
    for broad in ("at://did:web:{}*", "at://did:plc:a{}*"):
        table.find([broad.format("a" * number) for number in range(20)], "", 0, 250)
    last = pull_uri(4_998, author(499))
    assert [label.fields["uri"] for label in table.find(["*"], last, 0, 250)] == [pull_uri(4_999, author(499))]
    assert 0 < len(ticks) < MOST
