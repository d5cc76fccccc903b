"""Computes the columns of the `trust` table: structural trust of everyone from every seed set.

A vouch may name merged pull requests of its subject as evidence. Any at-uri can stand in a vouch and the forge checks
none of them, so a named pull request counts only where

- its author is the subject of that vouch;
- its target is a watched repository: elsewhere anybody may be their own push-holder;
- `outcomes` (derived.sql) has it merged as of now: by the last status of a push-holder who is not its author, or by a
  landing on the target branch; and neither reverted nor fixed within its window;
- it was not counted before: ten mentions of one merge are one.

Neither voucher nor subject can bring that about alone. A merge that a later status takes back does not count from then
on.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.trust.bounded import Incoming, judge_few
from scoring.trust.denounces import judge_within, transfers_left
from scoring.trust.first_passage import DAMPING, Transfers, eigentrust, evidence_weights, trust_of, vouch_weights
from scoring.trust.graph import Edges, Floats, Integers, Network, prepare, strongest
from scoring.trust.paths import NOBODY, hangs_on_one, immediate_dominators, strongest_chains

STATEMENTS: Mapping[str, str] = dict(
    re.findall(r"-- name: (\w+)\n(.*?;)\n", Path(__file__).parent.with_name("derived.sql").read_text(), re.DOTALL)
)


# Vouches that stand and name evidence; a denounce gains nothing by evidence.
NAMING = """
from vouches
where kind = 'vouch' and evidences <> '[]' and voucher_id <> subject_id
  and seen_at <= $now and (superseded_at is null or superseded_at > $now)
"""
NAMED = f"""
named as (
  select distinct voucher_id, subject_id, unnest(from_json(evidences, '["varchar"]')) as pull_uri {NAMING}
)
"""
ANY = f"select count(*) {NAMING}"  # 2 ms for 400,000 vouches, 15 where it reads what they name
OUTCOMES = STATEMENTS["outcomes"].partition(" as\n")[2].rstrip(";\n")
VERIFIED = f"""
with {NAMED}, known as ({OUTCOMES})
select n.voucher_id, n.subject_id, count(*) as pulls
from named n join known k on k.pull_uri = n.pull_uri and k.author_id = n.subject_id and k.clean
semi join watched_repositories w on w.repository_id = k.repository_id
group by n.voucher_id, n.subject_id
"""


def read_verified_evidence(rows: Rows, now: datetime, window_days: int) -> Edges:
    """Return how many verified pull requests each vouch names, as its weight; people by contributor_id.

    Only events seen up to `now` count, also those that happened to the lines of a merge within `window_days`.
    """
    if not rows.value(ANY, {"now": now}):
        return Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    counts = rows.columns(VERIFIED, {"now": now, "window": window_days})
    return Edges(
        *(np.asarray(counts[name]) for name in ("voucher_id", "subject_id")), np.asarray(counts["pulls"], float)
    )


# A changed vouch counts from the moment it was seen; until then the version before it stands. Age is counted in whole
# days of the calendar, so that between two midnights no weight changes by itself; a vouch loses .1 % a day.
VOUCHES = """
select v.voucher_id, v.subject_id, v.kind = 'vouch' as is_vouch, 0 as merges,
  date_diff('day', v.written_at, $now::timestamp) as age_days
from vouches v
where v.seen_at <= $now and (v.superseded_at is null or v.superseded_at > $now) and v.voucher_id <> v.subject_id
  and v.voucher_id not in (select contributor_id from hidden_people)
"""
# Merges as weak vouches of the person who merged for the author: by the last status of a push-holder who is not the
# author, in a repository where the author may not push, and not contradicted by others. A real vouch or denounce of
# that pair replaces them. A merge that only a landing shows (`landings`) is nobody's vouch: its pusher is not known.
MERGES = f"""
with vouch_records as ({VOUCHES}), last_statuses as (
  select pull_uri, arg_max({{'status': status, 'actor_id': actor_id, 'seen_at': seen_at}}, (seen_at, event_seq)) as last
  from statuses
  where authority = 'push_holder' and status in ('open', 'closed', 'merged') and deleted_at is null and seen_at <= $now
  group by pull_uri
)
from vouch_records union all by name
select t.last.actor_id as voucher_id, p.author_id as subject_id, true as is_vouch, count(*) as merges,
  date_diff('day', max(t.last.seen_at), $now::timestamp) as age_days
from last_statuses t join pull_requests p using (pull_uri)
semi join contributors c on c.contributor_id = t.last.actor_id
anti join hidden_people h on h.contributor_id = t.last.actor_id
anti join push_holders own on own.repository_id = p.repository_id and own.contributor_id = p.author_id
anti join vouch_records r on r.voucher_id = t.last.actor_id and r.subject_id = p.author_id
where t.last.status = 'merged' and p.merge_proof is distinct from 'contradicted' and t.last.actor_id <> p.author_id
group by voucher_id, subject_id
"""
SITE_SEEDS = """
select contributor_id from seeds semi join contributors using (contributor_id) where repository_id = 0
"""
SITE = 0  # the repository_id of the site's own seed set
NEGLIGIBLE = 1e-12  # below this a share of the EigenTrust walk is rounding
# Significant digits that are stored: any vouch moves everybody's trust and share a little, beyond these digits in nine
# of ten rows, which then need not be written. Digits are cut, never rounded up: a stored value passes no threshold that
# the exact one does not pass. `SLACK` keeps round numbers that the order of a sum makes slightly smaller.
DIGITS, SHARE_DIGITS, SLACK = 4, 3, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The vouches that stand, with people indexed in the order of their DIDs.

    Unlike the numbers of the store, that order does not depend on the order of events, so every run breaks ties between
    equal paths alike.
    """

    contributor_ids: Integers  # by index
    position: Integers  # index by contributor_id, -1 for an unused number
    vouches: Network
    denounces: Network
    merges: Edges  # vouches that are merges, sorted, with their number: these pairs have no vouch record
    evidence: Edges  # vouches that name pull requests, sorted, with the number of verified ones
    site: Integers  # the indices of the site's seeds, in rising order: EigenTrust walks from them

    def places(self, people: Sequence[int]) -> Integers:
        """Return the indices of people, in rising order, each once."""
        return np.unique(self.position[np.asarray(people, dtype=np.int64)])

    def is_among(self, people: Sequence[int] | None) -> NDArray[np.bool_]:
        """Mark these people, contributor_ids, by index; everybody for None."""
        marked = np.full(len(self.contributor_ids), people is None)
        if people is not None:
            marked[self.position[np.asarray(people, dtype=np.int64)]] = True
        return marked

    @property
    def edges(self) -> Edges:
        return Edges(self.vouches.voucher, self.vouches.subject, self.vouches.weight)

    def merges_behind(self, voucher: Integers, subject: Integers) -> Integers:
        """Return how many merges each of these vouches stands for; 0 for a vouch record."""
        return _counted(self.merges, voucher, subject, len(self.contributor_ids))

    def evidence_behind(self, voucher: Integers, subject: Integers) -> Integers:
        """Return how many verified pull requests each of these vouches names."""
        return _counted(self.evidence, voucher, subject, len(self.contributor_ids))


def read_graph(rows: Rows, now: datetime, policy: Policy) -> Graph:
    """Read the vouch graph as of now: weights by verified evidence and age, merges as weak vouches if set so."""
    ids = rows.columns("select contributor_id from contributors order by did")["contributor_id"].astype(np.int64)
    position, size = np.full(int(ids.max(initial=0)) + 1, -1, dtype=np.int64), len(ids)
    position[ids] = np.arange(size)
    rows_by_column = rows.columns(MERGES if policy.merge_weight else VOUCHES, {"now": now})
    voucher, subject = position[rows_by_column["voucher_id"]], position[rows_by_column["subject_id"]]
    vouch, merges = (
        np.asarray(rows_by_column["is_vouch"], dtype=bool),
        np.asarray(rows_by_column["merges"], dtype=np.int64),
    )
    named = read_verified_evidence(rows, now, policy.window_days)
    evidence = Edges(*strongest(position[named.voucher], position[named.subject], named.weight, size))
    weight = vouch_weights(np.asarray(rows_by_column["age_days"], dtype=np.float64), policy.half_life_days)
    weight[vouch] *= _weight_of(merges[vouch], _counted(evidence, voucher[vouch], subject[vouch], size), policy)
    implied, site = merges > 0, rows.columns(SITE_SEEDS)["contributor_id"].astype(np.int64)
    return Graph(
        contributor_ids=ids,
        position=position,
        vouches=prepare(Edges(voucher[vouch], subject[vouch], weight[vouch]), size),
        denounces=prepare(Edges(voucher[~vouch], subject[~vouch], weight[~vouch]), size),
        merges=Edges(*strongest(voucher[implied], subject[implied], merges[implied].astype(np.float64), size)),
        evidence=evidence,
        site=np.sort(position[site]),
    )


def _weight_of(merges: Integers, pulls: Integers, policy: Policy) -> Floats:
    """Weigh vouches before they age: by the merges that they stand for, or by the pull requests that they name."""
    by_evidence = evidence_weights(pulls, policy.vouch_weight, policy.evidence_weight)
    return np.where(merges > 0, np.minimum(policy.merge_weight * merges, policy.merge_cap), by_evidence)


def _counted(counts: Edges, voucher: Integers, subject: Integers, size: int) -> Integers:
    """Look up these pairs in sorted `counts`; 0 where a pair has none."""
    keys = np.append(counts.voucher * size + counts.subject, -1)
    place = np.searchsorted(keys[:-1], voucher * size + subject)
    count = np.append(counts.weight, 0).astype(np.int64)
    return np.where(keys[place] == voucher * size + subject, count[place], 0)


def passage_columns(graph: Graph, seeds: Sequence[int], policy: Policy) -> pa.Table:
    """Compute trust from one seed set for all people whom it reaches or whom a trusted person denounces.

    `other_seed` is false for all of them: it is computed by `few_columns` alone.
    """
    start, hops = graph.places(seeds), policy.parameters.hops
    judged = judge_within(graph.vouches, graph.denounces, start, policy.parameters, policy.denounce_strength)
    shown = np.flatnonzero((judged.first.distance >= 0) | (judged.trusted_denouncers > 0))
    flow = transfers_left(graph.vouches, judged, start, policy.parameters)
    mass = _cut(judged.passage.mass[shown], DIGITS)
    distance, dominator = judged.passage.distance[shown], _dominators(flow, hops)[shown]
    path, path_merges = _path_columns(graph, strongest_chains(flow, hops)[shown])
    columns = {
        "contributor_id": graph.contributor_ids[shown],
        "first_passage": mass,
        "structural_trust": trust_of(mass, policy.parameters, judged.passage.distance[shown] == 0),
        "distance": pa.array(distance, mask=distance < 0),
        "path": path,
        "path_merges": path_merges,
        "dominator": pa.array(graph.contributor_ids[dominator], mask=dominator == NOBODY),
        "denounced_by_seed": judged.by_seed[shown],
        "trusted_denouncers": judged.trusted_denouncers[shown],
        "denounce_weight": _cut(judged.weight[shown], DIGITS),
        "keep": _cut(judged.keep[shown], DIGITS),
        "other_seed": np.zeros(len(shown), dtype=bool),
    }
    return pa.table(columns)


def few_columns(
    graph: Graph, incoming: Incoming, seeds: Sequence[int], people: Sequence[int], policy: Policy
) -> pa.Table:
    """Compute the rows of `passage_columns` of these people alone, equal in every bit, and `other_seed`.

    `incoming` is prepared from the graph; `people` are contributor_ids.
    """
    places = graph.places(people)
    found = judge_few(incoming, graph.places(seeds), places, policy.denounce_strength)
    shown = np.flatnonzero(found.reached | (found.trusted_denouncers > 0))
    mass, distance, dominator = _cut(found.mass[shown], DIGITS), found.distance[shown], found.dominator[shown]
    path, path_merges = _path_columns(graph, found.chain[shown])
    voucher, subject = found.other_ways
    records = graph.merges_behind(voucher, subject) == 0
    columns = {
        "contributor_id": graph.contributor_ids[places[shown]],
        "first_passage": mass,
        "structural_trust": trust_of(mass, policy.parameters, distance == 0),
        "distance": pa.array(distance, mask=distance < 0),
        "path": path,
        "path_merges": path_merges,
        "dominator": pa.array(graph.contributor_ids[dominator], mask=dominator == NOBODY),
        "denounced_by_seed": found.by_seed[shown],
        "trusted_denouncers": found.trusted_denouncers[shown],
        "denounce_weight": _cut(found.weight[shown], DIGITS),
        "keep": _cut(found.keep[shown], DIGITS),
        "other_seed": np.isin(places[shown], subject[records]),
    }
    return pa.table(columns)


def site_share(graph: Graph) -> Floats:
    """Return everybody's share of the walk of EigenTrust from the site's seeds, by index, cut as it is stored.

    There is one walk for all repositories: 70 ms at 100,000 people and 1,000,000 vouches. Zeros without seeds.
    """
    if not len(graph.site):
        return np.zeros(len(graph.contributor_ids))
    share = eigentrust(graph.edges, graph.site, len(graph.contributor_ids))
    return _cut(np.where(share > NEGLIGIBLE, share, 0.0), SHARE_DIGITS)


def needs_share(repository_id: int, policy: Policy) -> bool:
    """Return whether rows of this seed set depend on `site_share`: the site's hold it, TRUST=eigentrust serves it."""
    return repository_id == SITE or policy.measure == "eigentrust"


def trust_columns(
    graph: Graph,
    repository_id: int,
    seeds: Sequence[int],
    passage: pa.Table,
    share: Floats | None,
    policy: Policy,
    among: Sequence[int] | None = None,
) -> pa.Table:
    """Build rows of `trust` for one seed set from its first passage and, where it `needs_share`, from `site_share`.

    With `among`, contributor_ids, only for those people. Only the site's rows hold the share, which is read from there
    for every repository: a vouch that moves it a little writes no row of a repository's.
    """
    columns = {name: passage[name] for name in passage.column_names}
    places = graph.position[passage["contributor_id"].to_numpy()]
    if share is not None and needs_share(repository_id, policy):
        walked = (share > 0) & graph.is_among(among)
        walked[places] = False
        further = np.flatnonzero(walked)
        whole = pa.concat_tables([passage, _beyond_reach(graph, further, passage.schema)])
        places = np.concatenate([places, further])
        trust, keep = (whole[name].to_numpy() for name in ("structural_trust", "keep"))
        is_seed = np.isin(places, graph.places(seeds))
        columns = {name: whole[name] for name in whole.column_names}
        columns["structural_trust"] = served_trust(trust, keep, share[places], is_seed, len(graph.site), policy)
    shown = pa.nulls(len(places), pa.float64()) if share is None or repository_id != SITE else share[places]
    columns |= {"repository_id": np.full(len(places), repository_id, dtype=np.int32), "eigentrust": shown}
    return pa.table(columns)


def _beyond_reach(graph: Graph, places: Integers, schema: pa.Schema) -> pa.Table:
    """Build rows of people whom only the walk of EigenTrust reaches."""
    count = len(places)
    columns = {
        "contributor_id": graph.contributor_ids[places],
        "distance": pa.nulls(count, pa.int64()),
        "path": [[]] * count,
        "path_merges": [[]] * count,
        "dominator": pa.nulls(count, pa.int64()),
        **dict.fromkeys(("denounced_by_seed", "other_seed"), np.zeros(count, dtype=bool)),
        "trusted_denouncers": np.zeros(count, dtype=np.int64),
        "keep": np.ones(count),
    }
    nothing = dict.fromkeys(("first_passage", "structural_trust", "denounce_weight"), np.zeros(count))
    return pa.table(columns | nothing, schema)


def served_trust(
    trust: Floats, keep: Floats, share: Floats, is_seed: NDArray[np.bool_], site_seeds: int, policy: Policy
) -> Floats:
    """Return the structural trust in [0, 1] that is served; 1 for a seed, 0 for a person whom a seed denounces.

    TRUST=eigentrust serves the baseline of the site, scaled against one undiluted vouch by one of its seeds: where each
    of k seeds vouches for one person who vouches for nobody, that person's share is t1 = (1 - a) / (k (2 - a)), and s =
    t / (t + c t1), so that such a vouch gives the s = 1 / (1 + c) that first passage gives it, and a tenth of it s =
    1/2 there too. Unlike there a seed's vouch is worth the less the more people the seed vouches for, and it is the
    same in every repository but for that one's own seeds and the denounces that count there.
    """
    if policy.measure == "first_passage":
        return trust
    unit = policy.parameters.transfer * (1 - DAMPING) / (max(site_seeds, 1) * (2 - DAMPING))
    scaled = np.divide(share, share + unit, out=np.zeros(len(share)), where=share > 0) * keep
    return np.where(is_seed, 1.0, scaled)


def _dominators(flow: Transfers, hops: int) -> Integers:
    """Return the single account, not a seed, whose loss would end each person's trust; NOBODY where there is none."""
    nearest = immediate_dominators(flow, hops)
    return np.where(hangs_on_one(nearest, flow.distance), nearest, NOBODY)


def _path_columns(graph: Graph, chains: Integers) -> tuple[pa.Array, pa.Array]:
    """Return the paths as contributor_ids, and for each vouch on them how many merges it stands for (0: a record)."""
    used, linked = chains >= 0, chains[:, 1:] >= 0
    people = pa.ListArray.from_arrays(_ends(used), graph.contributor_ids[chains[used]])
    merges = graph.merges_behind(chains[:, :-1][linked], chains[:, 1:][linked])
    return people, pa.ListArray.from_arrays(_ends(linked), np.minimum(merges, 32_767).astype(np.int16))


def _ends(used: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the starts of the lists of a list column, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int32)


def _cut(values: Floats, digits: int) -> Floats:
    """Cut values of 0 or more to this number of significant digits."""
    positive = np.where(values > 0, values, 1.0)
    unit = 10.0 ** (np.floor(np.log10(positive)) - digits + 1)
    return np.where(values > 0, np.floor(positive / unit * (1 + SLACK)) * unit, 0.0)
