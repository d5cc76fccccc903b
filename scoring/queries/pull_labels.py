"""Labels that people with push access set on pull requests, read from a snapshot."""

from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from types import MappingProxyType

from ingest.store.transaction import Rows
from scoring.pipeline.stored import persons
from scoring.types import Person

SHOWN = 20  # labels of one pull request
LONGEST = 40  # characters of a name, which the forge bounds so, and of a value
PLAIN = ("", "null", "true")  # values that say no more than that the label is set
OPERAND = '[{"key":"VARCHAR","value":"VARCHAR"}]'

# Only people with push access may label, by the forge's rule. Anybody can write the record, so the rest counts for
# nothing. The last word about a label and its value holds; within one record adding outweighs removing.
# The definition may lie on an account that is not read here: then the key of its record names the label.
STANDING = f"""
with allowed as (
  select o.* from label_operations o join pull_requests p on p.pull_uri = o.subject_uri
  join own_people m on m.repository_id = p.repository_id and m.contributor_id = o.author_id
  where list_contains(?, o.subject_uri) and o.deleted_at is null
), told as (
  select subject_uri, written_at, uri, true as adds, unnest(from_json(added, '{OPERAND}')) as operand from allowed
  union all
  select subject_uri, written_at, uri, false, unnest(from_json(removed, '{OPERAND}')) from allowed
), standing as (
  select subject_uri, operand.key as key, operand.value as value from told
  group by all having arg_max(adds, (written_at, uri, adds))
)
select subject_uri, coalesce(d.name, split_part(s.key, '/', 5))[:{LONGEST}] as name, value[:{LONGEST}] as value
from standing s left join label_definitions d on d.uri = s.key and d.deleted_at is null
order by subject_uri, name, value
"""


def pull_labels(rows: Rows, uris: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The labels of these pull requests by at-uri, by name, at most SHOWN each; without those that have none.

    A label with a value reads "name: value"; a value that is a DID reads as its handle. Names and values are others'
    words: whoever shows them makes them safe.
    """
    if not uris:
        return MappingProxyType({})
    found = [row for row in rows.rows(STANDING, [list(uris)]) if row["name"]]
    dids = {row["value"] for row in found if row["value"].startswith("did:")}
    people = persons(rows, dids) if dids else {}
    return {
        uri: tuple(_words(row["name"], row["value"], people) for row in islice(labels, SHOWN))
        for uri, labels in groupby(found, key=lambda row: row["subject_uri"])
    }


def _words(name: str, value: str, people: Mapping[str, Person]) -> str:
    if value in PLAIN:
        return name
    return f"{name}: {people[value].name if value in people else value}"
