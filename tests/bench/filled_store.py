"""A store of a site that has run for long: what a small recording left in it, many times over, and a full event log.

Every row is a copy of one that the real worker wrote, under other names and at another time, so whatever reads the
tables finds them consistent. Copies vouch across, so that trust reaches most of them. The log is filled with the small
records of a whole network (stars, follows, reactions, comments, issues) and the tables that they lead to.
"""

from pathlib import Path

from ingest.store.database import Store

# Letters of a did:plc or a record key made of a hash, for a copy of what somebody wrote.
LETTERS = "translate(substr(md5({of}), 1, {length}), '0189', 'ghij')"
DID = "'did:plc:' || " + LETTERS.format(of="did || k", length=24)
REPO_KEY = "'did:plc:' || " + LETTERS.format(of="repo_key || k", length=24)
# An at-uri of somebody in a copy: they and their repositories have other names there, their records the same keys.
URI = "'at://' || {did} || substr({uri}, 6 + strlen(split_part({uri}, '/', 3)))"
DAYS_APART = 4  # between a copy and the one before it: 25 copies are a hundred days

# `copies` numbers them from 1. People and repositories of copy k have the numbers of the first ones and k times `span`.
PREPARED = f"""
create temp table copies as select k::integer as k from range(1, $copies + 1) r(k);
create temp table spans as select (select max(contributor_id) from contributors) as people,
  (select max(repository_id) from repositories) as repositories;
create temp table named as select contributor_id, did, k, {DID} as copied
  from contributors, copies
"""
COPIED = f"""
insert into contributors by name
select c.* replace (n.copied as did, c.contributor_id + n.k * s.people as contributor_id,
  replace(handle, '.example', '-' || n.k || '.example') as handle,
  first_seen_at - to_days({DAYS_APART} * n.k) as first_seen_at,
  did_created_at - to_days({DAYS_APART} * n.k) as did_created_at)
from contributors c join named n using (contributor_id), spans s;

insert into signals by name
select g.* replace (n.copied as subject, observed_at - to_days({DAYS_APART} * k) as observed_at,
  known_from - to_days({DAYS_APART} * k) as known_from)
from signals g join named n on n.did = g.subject where source = 'plc';

insert into vouches by name
select v.* replace (voucher_id + (hash(voucher_id, subject_id, k) % (k + 1))::integer * people as voucher_id,
  subject_id + k * people as subject_id, written_at - to_days({DAYS_APART} * k) as written_at,
  seen_at - to_days({DAYS_APART} * k) as seen_at)
from vouches v, copies, spans;

insert into repositories by name
select r.* replace ({REPO_KEY} as repo_key, repository_id + k * s.repositories as repository_id,
  owner_id + k * people as owner_id, name || '-' || k as name)
from repositories r, copies, spans s where k <= $repositories;

insert into repository_aliases
select {REPO_KEY.replace("repo_key", "alias")}, repository_id + k * s.repositories
from repository_aliases, copies, spans s where k <= $repositories and alias like 'did:%';

update push_holders set held_from = held_from - to_days({DAYS_APART} * $copies);

insert into push_holders by name
select h.* replace (repository_id + k * s.repositories as repository_id, contributor_id + k * people as contributor_id)
from push_holders h, copies, spans s where k <= $repositories;

insert into watched_repositories by name
select w.* replace (repository_id + k * s.repositories as repository_id)
from watched_repositories w, copies, spans s where k <= $repositories;

insert into mirrors by name
select m.* replace (repository_id + k * s.repositories as repository_id)
from mirrors m, copies, spans s where k <= $repositories;

insert into fetches by name
select f.* replace ({REPO_KEY.replace("repo_key", "subject")} as subject, null::timestamp as due_clock)
from fetches f, copies where kind in ('push_holders', 'mirror') and k <= $repositories;

insert into fetches by name
select f.* replace (n.copied as subject) from fetches f join named n on n.did = f.subject where kind = 'identity';

create temp table pulls as
select p.pull_uri, k, {URI.format(did="n.copied", uri="p.pull_uri")} as copied
from pull_requests p join named n on n.contributor_id = p.author_id where k <= $pulls;

insert into pull_requests by name
select p.* replace (c.copied as pull_uri, author_id + c.k * people as author_id,
  repository_id + (c.k % ($repositories + 1)) * s.repositories as repository_id,
  opened_at - to_days({DAYS_APART} * c.k) as opened_at, seen_at - to_days({DAYS_APART} * c.k) as seen_at,
  changed_at - to_days({DAYS_APART} * c.k) as changed_at, state_at - to_days({DAYS_APART} * c.k) as state_at,
  merged_at - to_days({DAYS_APART} * c.k) as merged_at)
from pull_requests p join pulls c using (pull_uri), spans s;

insert into pull_rounds by name
select r.* replace (c.copied as pull_uri, seen_at - to_days({DAYS_APART} * c.k) as seen_at,
  created_at - to_days({DAYS_APART} * c.k) as created_at)
from pull_rounds r join pulls c using (pull_uri);

insert into statuses by name
select u.* replace ({URI.format(did="n.copied", uri="u.status_uri")} as status_uri, c.copied as pull_uri,
  actor_id + (c.k % ($repositories + 1)) * people as actor_id, written_at - to_days({DAYS_APART} * c.k) as written_at,
  seen_at - to_days({DAYS_APART} * c.k) as seen_at)
from statuses u join pulls c using (pull_uri) join named n on n.contributor_id = u.actor_id and n.k = c.k, spans;

insert into patches by name
select c.copied as pull_uri, p.patch_ref, md5(p.patch_ref) as patch_id, null as sha256, 600 as bytes, 1 as files,
  1 as added, 1 as removed, 'read' as state, true as proves, [md5(p.patch_ref)] as series, []::varchar[] as change_ids
from pull_requests p join pulls c using (pull_uri) anti join patches k on k.pull_uri = c.copied;

insert into ci_runs by name select r.* replace (c.copied as pull_uri) from ci_runs r join pulls c using (pull_uri);

insert into fetches by name
select f.* replace (c.copied || substr(f.subject, 1 + strlen(c.pull_uri)) as subject, null::timestamp as due_clock)
from fetches f join pulls c on c.pull_uri = split_part(f.subject, ' ', 1) where kind in ('patch', 'ci');

insert into content_reviews by name
select r.* replace (c.copied as pull_uri, repository_id + (c.k % ($repositories + 1)) * s.repositories as repository_id)
from content_reviews r join pulls c using (pull_uri), spans s;

insert into touched_files by name
select t.* replace (c.copied as pull_uri) from touched_files t join pulls c using (pull_uri);

insert into scores by name
select s.* replace (md5(s.score_id || k) as score_id, contributor_id + k * people as contributor_id,
  as_of - to_days({DAYS_APART} * k) as as_of)
from scores s, copies, spans where pull_uri is null and repository_id = 0
"""
# What a network writes besides, spread over the four weeks that the log holds.
SMALL = f"""
create temp table everybody as
select contributor_id, did, row_number() over (order by contributor_id) - 1 as place from contributors, spans
where contributor_id > people;

create temp table written as
select n, (hash(n) % total)::bigint as author_place, (hash(n, 'subject') % total)::bigint as subject_place
from range(1, $events + 1) r(n), (select count(*) as total from everybody);

create temp table small as
select n, a.contributor_id as author_id, a.did, $first + n as event_seq,
  case when n % 20 < 7 then 'star' when n % 20 < 13 then 'follow' when n % 20 < 17 then 'reaction'
       when n % 20 < 19 then 'comment' else 'issue' end as kind,
  'sh.tangled.' || case when n % 20 < 7 then 'feed.star' when n % 20 < 13 then 'graph.follow'
       when n % 20 < 17 then 'feed.reaction' when n % 20 < 19 then 'feed.comment' else 'repo.issue' end as collection,
  '3kd' || {LETTERS.format(of="'key' || n", length=10)} as rkey,
  'at://' || a.did || '/' || collection || '/' || rkey as uri,
  'bafyrei' || {LETTERS.format(of="'one' || n", length=32)} || {LETTERS.format(of="'two' || n", length=20)} as cid,
  (select max(seen_at) from statuses) - to_seconds((n * 2_419_200 // $events)) as seen_at, b.did as subject,
  'at://' || b.did || '/sh.tangled.repo/3kd' || {LETTERS.format(of="b.did", length=10)} as subject_uri,
  'I tried this with ' || md5('words' || n) || ' and it does what it says; the second case is still open, see '
    || md5('more' || n) as body
from written join everybody a on a.place = author_place join everybody b on b.place = subject_place;

insert into events by name
select md5(uri) as event_id, event_seq, 'live' as source, 'commit' as kind, did, collection, rkey,
  'create' as operation, rkey as rev, cid, seen_at, false as late,
  to_json(case kind
    when 'star' then {{'$type': collection, 'subject': subject_uri, 'createdAt': seen_at}}::json
    when 'follow' then {{'$type': collection, 'subject': subject, 'createdAt': seen_at}}::json
    when 'reaction' then {{'$type': collection, 'subject': subject_uri, 'reaction': '+1', 'createdAt': seen_at}}::json
    when 'comment' then {{'$type': collection, 'subject': {{'uri': subject_uri, 'cid': cid}}, 'body': body,
      'createdAt': seen_at}}::json
    else {{'$type': collection, 'repo': subject_uri, 'title': 'It stops at ' || n, 'body': body,
      'createdAt': seen_at}}::json end)::varchar as body, seen_at as loaded_clock
from small;

insert into stars by name select uri, author_id, cid as record_cid, subject_uri as subject, seen_at as written_at,
  seen_at, seen_at as changed_at, null::timestamp as deleted_at from small where kind = 'star';
insert into follows by name select uri, author_id, cid as record_cid, subject, seen_at as written_at,
  seen_at, seen_at as changed_at, null::timestamp as deleted_at from small where kind = 'follow';
insert into reactions by name select uri, author_id, cid as record_cid, subject_uri, '+1' as reaction,
  seen_at as written_at, seen_at, seen_at as changed_at, null::timestamp as deleted_at
from small where kind = 'reaction';
insert into comments by name select uri, author_id, cid as record_cid, 'feed' as form, subject_uri, cid as subject_cid,
  body, null::varchar as reply_to, null::integer as round, seen_at as written_at, seen_at, seen_at as changed_at,
  null::timestamp as deleted_at from small where kind = 'comment';
insert into issues by name select uri, author_id, cid as record_cid, subject_uri as repository,
  'It stops at ' || n as title, body, seen_at as written_at, seen_at, seen_at as changed_at,
  null::timestamp as deleted_at from small where kind = 'issue'
"""
ENDED = """
update hops set position_seq = (select max(event_seq) from events) where name = 'derive';
insert or replace into hops select 'people', max(contributor_id), now()::timestamp from contributors;
select max(nextval('repository_numbers')) from range((select max(repository_id) from repositories))
"""
MEMORY_MB = 4_000  # everything is one transaction


def fill(path: Path, copies: int, repositories: int, events: int, pulls: int | None = None) -> None:
    """Put so many copies of what a store holds beside it, of its repositories fewer, and so many small records.

    `pulls`: only so many copies bring their pull requests; all by default. About a minute for 25 copies of 2,000 people
    and 900,000 records. What the store holds has to be settled; the next scoring pass judges everyone.
    """
    store = Store.open(path, memory_mb=MEMORY_MB)
    with store.write() as txn:
        given = {"copies": copies, "repositories": repositories, "events": events}
        given["pulls"] = copies if pulls is None else pulls
        given["first"] = txn.value("select max(event_seq) from events")
        for statement in ";\n".join((PREPARED, COPIED, SMALL, ENDED)).split(";\n"):
            txn.execute(statement, {name: value for name, value in given.items() if f"${name}" in statement})
        txn.inputs_changed()
    store.close()
