-- The one DuckDB file. Times are naive UTC. `*_clock` columns are wall-clock times, `*_seq` columns are serial numbers:
-- both are ignored by `manage.py digest`. `contributor_id`, `author_id`, `actor_id`, `voucher_id`, `subject_id` and
-- `owner_id` are people (contributors.contributor_id); `repository_id` 0 stands for the whole site.

-- Facts about the file: schema version, its one stream, and that long texts lie beside it.
create table meta (
  key varchar primary key,            -- 'schema_version', 'source', 'long_texts'
  value varchar not null
);

-- A cursor per source. The cursor moves in the transaction that stores the rows it covers.
create table ingest_state (
  source varchar primary key,         -- 'jetstream', 'replay:<fingerprint>', 'demo'
  cursor_us bigint not null,          -- time_us of the newest frame handled, unix microseconds
  dropped_strangers bigint not null,  -- identity and account events of DIDs that never wrote here
  server_seq bigint,                  -- a v2 server's own number of that frame; null: the stream is v1
  server varchar,                     -- host that gave the number and the times: they mean little to another host
  moved_clock timestamp not null,     -- when the cursor last moved: a later cursor was in the future
  resume_us bigint                    -- part of cursor_us that neighbouring frames confirm (ingest/stream/early.py); null: all
);

-- Spans that the stream did not bring: a server began later than it was asked to.
create table gaps (
  source varchar not null,
  from_us bigint not null,            -- time_us of the newest frame before the gap
  to_us bigint not null,              -- time_us of the first frame after it
  reason varchar not null,
  found_clock timestamp not null,
  filled_clock timestamp,             -- end of the backfill that began after the gap
  primary key (source, from_us)
);

-- Collections, fields and values of live records that the registry does not know. Bounded; the rest is summed under
-- '(others)'.
create table unknown_shapes (
  collection varchar not null,
  what varchar not null,              -- 'collection', 'field:<name>', 'value:<field>=<value>', '(others)'
  sightings bigint not null,
  first_seen_at timestamp not null,
  last_seen_at timestamp not null,
  primary key (collection, what)
);

-- Append-only log of everything that arrived, in order of arrival.
create table events (
  event_id varchar not null,          -- hash of (did, collection, rkey, operation, rev or cid) or (did, kind, body); unique
  event_seq bigint not null,          -- order of arrival in this file
  source varchar not null,            -- the ingest_state source, or 'backfill'
  kind varchar not null,              -- 'commit', 'identity', 'account'
  did varchar not null,               -- author of the record, or the account itself
  collection varchar,                 -- NSID; null unless kind is 'commit'
  rkey varchar,
  operation varchar,                  -- 'create', 'update', 'delete'
  rev varchar,
  cid varchar,                        -- CID of the record; null for a delete
  seen_at timestamp not null,         -- time_us of the frame: when the stream witnessed it
  late boolean not null,              -- a higher rev of this DID was logged before it: a cut-over or a listing
  -- the record, or the identity or account object, as JSON text; a longer text than 4 kB is replaced by
  -- 'text:sha256:<hash>:<bytes>', which names a file beside the store (ingest/store/long_texts.py)
  body varchar,
  loaded_clock timestamp not null
);

-- Files of older rows of the log, which are no longer in `events`: `path` is a Parquet file with the columns of `events`.
create table event_segments (
  path varchar primary key,
  rows bigint not null,
  first_seq bigint not null,
  last_seq bigint not null,
  low_rev varchar,                    -- lowest and highest rev that is a TID; null: none is
  high_rev varchar,
  unordered bigint not null,          -- rows without such a rev
  low_seen_at timestamp not null,
  high_seen_at timestamp not null
);

-- Unreadable events with the reason; beyond DEAD_LETTERS the least useful are dropped (ingest/records/dead_letters.py).
create table dead_letters (
  letter_id varchar primary key,      -- hash of (event_id, or the whole text, and reason): a repetition adds no letter
  letter_seq bigint not null,
  event_id varchar,                   -- null if the frame itself could not be read
  event_seq bigint,                   -- that event's place in the log; null without event_id
  source varchar not null,
  reason varchar not null,            -- one sentence
  body varchar not null,              -- the text, cut at 64 kB unless due_clock is given; a long one as in `events`
  found_clock timestamp not null,
  due_clock timestamp                 -- time at which a frame dated ahead is read again; else null
);

-- Unreadable events whose letter was dropped: the log holds their text.
create table unread_events (
  event_seq bigint not null           -- as events.event_seq
);

-- The position of each hop. A hop has work while its position is behind its input.
create table hops (
  -- 'derive' (event_seq), 'inputs' (changes of the inputs of scores), 'score' (inputs judged), 'erase' (erasures),
  -- 'compact' (erasures with all bytes removed), 'file' (rewrites of the file), 'people' (highest number ever given),
  -- 'letters' (dropped dead letters without an event)
  name varchar primary key,
  position_seq bigint not null,
  ran_clock timestamp not null
);

-- Look-ups on the network, so that a failed one is tried again later and a finished one is not.
create table fetches (
  -- 'identity', 'push_holders', 'patch', 'ci', 'mirror', 'bluesky', 'pages', 'advisories', 'package', 'attestation',
  -- 'git_reading', 'signatures'
  kind varchar not null,
  subject varchar not null,           -- DID, repository key, pull request and patch reference, package URL, or hash of a text
  outcome varchar not null,           -- 'found', 'absent', 'failed', 'wanted' (somebody asked for it)
  reason varchar,                     -- reason of a failure, in words
  attempts integer not null,
  due_clock timestamp,                -- when to ask again; null: not automatically
  fetched_clock timestamp not null,
  primary key (kind, subject)
);

-- One run of a backfill, which reads the records of every account that has ours.
create table backfills (
  run_id varchar primary key,
  reason varchar not null,            -- 'first_start', 'gap', 'by_hand', 'setup'
  state varchar not null,             -- 'finding', 'listing', 'done'
  collections varchar[] not null,     -- requested by hand; empty: all registered ones
  is_whole boolean not null,          -- every account and every collection: only such a run fills gaps
  witnessed_until timestamp,          -- everything before was seen live, so other listed records are later; null: nothing was
  notes varchar[] not null,           -- failures of the search for accounts
  began_clock timestamp not null,
  ended_clock timestamp
);

-- The accounts of a run; `reason` is why one could not be read, or which part of a finished one is missing.
create table backfill_accounts (
  run_id varchar not null,
  did varchar not null,
  state varchar not null,             -- 'waiting', 'done', 'absent', 'failed'
  reason varchar,
  records integer not null,           -- listed ones, including those already in the log
  attempts integer not null,          -- tries in a row that failed
  due_clock timestamp,                -- when to try again
  primary key (run_id, did)
);

-- Accounts that were erased, by keyed hash: no personal data, and enough to keep a replay from bringing them back.
create table tombstones (
  mark varchar primary key,           -- HMAC-SHA256 of the DID under a key of this drive
  why varchar not null,               -- 'account_deleted', 'by_request'
  erased_at timestamp not null        -- records seen up to this time stay out
);
