-- The one DuckDB file. Times are naive UTC. `*_clock` columns are wall-clock times, `*_seq` columns are serial numbers:
-- neither takes part in `manage.py digest`. `contributor_id`, `author_id`, `actor_id`, `voucher_id`, `subject_id` and
-- `owner_id` are people (contributors.contributor_id); `repository_id` 0 stands for the whole site.

-- What the file is: schema version, and the one stream it was filled from.
create table meta (
  key varchar primary key,            -- 'schema_version', 'source'
  value varchar not null
);

-- A cursor per source. The cursor moves in the transaction that stores the rows it covers.
create table ingest_state (
  source varchar primary key,         -- 'jetstream', 'replay:<fingerprint>', 'demo'
  cursor_us bigint not null,          -- time_us of the newest frame handled, unix microseconds
  dropped_strangers bigint not null,  -- identity and account events of DIDs that never wrote here
  moved_clock timestamp not null
);

-- Append-only log of everything that arrived, in order of arrival.
create table events (
  event_id varchar primary key,         -- hash of (did, collection or kind, rkey, rev or cid or seq, operation)
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
  body varchar,                       -- the record, or the identity or account object, as JSON text
  loaded_clock timestamp not null
);

-- What could not be understood, with the reason; nothing is thrown away.
create table dead_letters (
  letter_id varchar primary key,      -- hash of (event_id, or the whole text, and reason): a repetition is no second letter
  letter_seq bigint not null,
  event_id varchar,                    -- null where the frame itself could not be read
  source varchar not null,
  reason varchar not null,            -- one sentence
  body varchar not null,              -- the text, cut at 64 kB
  found_clock timestamp not null
);

-- How far each hop has come. A hop has work while its position is behind what it follows.
create table hops (
  name varchar primary key,           -- 'derive' (event_seq), 'inputs' (changes to what scores read), 'score' (inputs judged)
  position_seq bigint not null,
  ran_clock timestamp not null
);

-- What has been asked of the network, so that a failed look-up is tried again later and a finished one is not.
create table fetches (
  kind varchar not null,              -- 'identity', 'push_holders', 'patch'
  subject varchar not null,           -- DID, repository key or patch reference
  outcome varchar not null,           -- 'found', 'absent', 'failed'
  reason varchar,                     -- why not, in words
  attempts integer not null,
  due_clock timestamp,                -- when to ask again; null: not by itself
  fetched_clock timestamp not null,
  primary key (kind, subject)
);

-- Everyone who wrote a Tangled record here or is the subject of one. Repository DIDs are not people.
create table contributors (
  did varchar primary key,
  contributor_id integer not null,    -- given at ingest, in order of arrival
  first_seen_at timestamp,            -- null: only named by a knot so far, no record by or about them
  handle varchar,                     -- as the DID document claims it
  handle_verified boolean not null,   -- the handle's own domain names this DID
  pds varchar,                        -- https origin of the personal data server
  did_created_at timestamp,           -- first operation in the PLC log; null for did:web
  account_status varchar not null     -- 'active', 'deactivated', 'deleted', 'takendown', 'suspended', ...
);

-- Repositories by the key that pull requests name: the repository's DID, else the at-uri of its record.
create table repositories (
  repo_key varchar primary key,
  repository_id integer not null,     -- from 1; 0 is the site
  owner_id integer,                   -- whom the operator named, else the first to claim the key; null until one is seen
  rkey varchar,
  name varchar,
  knot varchar,                       -- host of the git server
  spindle varchar,                    -- host of the CI server
  written_at timestamp,
  seen_at timestamp,
  deleted_at timestamp
);

create sequence repository_numbers start 1;

-- Other names of a repository (older pull requests name the record's at-uri, newer ones the DID).
create table repository_aliases (
  alias varchar primary key,
  repository_id integer not null
);

-- Repositories that a maintainer added: only these have a queue, decisions, patches and seeds of their own.
create table watched_repositories (
  repository_id integer primary key,
  review varchar not null,            -- 'off', 'deterministic', 'claude'
  watched_at timestamp not null
);

-- People configured as maintainers; repository_id 0 for the whole site.
create table maintainers (
  contributor_id integer not null,
  repository_id integer not null,
  primary key (contributor_id, repository_id)
);

-- Who may push to a repository, as its knot says, plus its owner.
create table push_holders (
  repository_id integer not null,
  contributor_id integer not null,
  role varchar not null,              -- 'owner', 'collaborator'
  primary key (repository_id, contributor_id)
);

-- Vouches and denounces, every version; the one that stands has no superseded_at.
create table vouches (
  voucher_id integer not null,
  subject_id integer not null,
  kind varchar not null,              -- 'vouch', 'denounce'
  reason varchar,
  evidences varchar not null,         -- JSON list of at-uris, unchecked claims
  record_cid varchar,
  written_at timestamp not null,      -- its createdAt, never later than seen_at; no lower limit: a claim
  seen_at timestamp not null,
  superseded_at timestamp,            -- when a put or delete replaced it, by the stream's clock
  superseded_by varchar,              -- 'put', 'delete'
  event_seq bigint not null
);

-- Pull requests as last written, with the state that follows from statuses of people who may set it.
create table pull_requests (
  pull_uri varchar primary key,
  author_id integer not null,
  repository_id integer not null,
  title varchar not null,             -- cut at 300 characters
  body varchar not null,              -- cut at 20,000 characters
  target_branch varchar,
  source_branch varchar,
  record_form varchar not null,       -- 'flat', 'target', 'rounds', 'versions'
  record_cid varchar,
  round integer not null,             -- index of the newest round, from 0
  round_count integer not null,
  patch_ref varchar,                  -- the newest round's pull_rounds.patch_ref; null where the record names no patch
  opened_at timestamp not null,       -- TID of the key, else createdAt; never later than seen_at; no lower limit: a claim
  seen_at timestamp not null,         -- first seen
  changed_at timestamp not null,      -- last version seen
  deleted_at timestamp,
  state varchar not null,             -- 'open', 'merged', 'closed', 'abandoned'
  state_at timestamp,                 -- when that state was seen; null while open from the start
  merged_at timestamp,                -- when the merge was seen; null for a back-written status: the moment is unknown
  merge_verified boolean not null     -- a push-holder other than the author recorded the merge
);

-- Every round that was ever seen of a pull request, a swapped patch included.
create table pull_rounds (
  pull_uri varchar not null,
  round integer not null,
  patch_ref varchar not null,         -- 'blob:<cid>', 'compare:<base>..<head>', 'inline:<sha256>'
  record_cid varchar,
  created_at timestamp,               -- self-declared
  seen_at timestamp not null,
  primary key (pull_uri, round, patch_ref)
);

-- Patches that were fetched; the bytes lie below DIFF_CORPUS_DIR.
create table patches (
  pull_uri varchar not null,
  patch_ref varchar not null,
  patch_id varchar,                   -- hash of the change without positions and white space; null if unreadable
  sha256 varchar not null,            -- of the text; its file is <first two>/<sha256>.patch.gz
  bytes bigint not null,
  files integer not null,
  added integer not null,
  removed integer not null,
  state varchar not null,             -- 'read', 'malformed', 'oversized'
  primary key (pull_uri, patch_ref)
);

-- Status records. Who wrote one decides what it is worth.
create table statuses (
  status_uri varchar primary key,
  pull_uri varchar not null,
  actor_id integer not null,
  status varchar not null,            -- last segment: 'open', 'closed', 'merged', or an unknown word
  back_written boolean not null,      -- same key as the pull request: its time says nothing
  written_at timestamp not null,      -- TID of the key, else createdAt; never later than seen_at; no lower limit: a claim
  seen_at timestamp not null,
  deleted_at timestamp,
  authority varchar not null,         -- 'push_holder', 'author', 'author_push_holder', 'stranger'
  event_seq bigint not null
);

-- What happened to the merged lines afterwards.
create table pull_followups (
  pull_uri varchar not null,
  kind varchar not null,              -- 'reverted', 'patched'
  happened_at timestamp not null,
  known_from timestamp not null,
  evidence varchar not null,          -- commit or pull request that shows it
  primary key (pull_uri, kind, evidence)
);

-- Facts learned outside the stream, read as of a moment by the features.
create table signals (
  subject varchar not null,           -- DID or at-uri
  source varchar not null,
  key varchar not null,
  value varchar not null,
  observed_at timestamp not null,
  known_from timestamp not null,
  expires_at timestamp,
  evidence_uri varchar,
  declared_by varchar,                -- DID whose declared link led here
  primary key (subject, source, key, known_from)
);

-- Outcomes that count, one per settled pull request, each with the moment from which it was known.
create table labels (
  pull_uri varchar primary key,
  author_id integer not null,
  repository_id integer not null,
  clean boolean not null,             -- merged by another push-holder and quiet for LABEL_WINDOW_DAYS; else false
  known_from timestamp not null
);

-- People whose judgement is taken as given, per watched repository and for the site.
create table seeds (
  repository_id integer not null,
  contributor_id integer not null,
  role varchar not null,              -- 'owner', 'push_holder', 'maintainer'
  primary key (repository_id, contributor_id)
);

-- Structural trust from each seed set; only people whom it reaches.
create table trust (
  repository_id integer not null,
  contributor_id integer not null,
  first_passage double not null,      -- F >= 0
  structural_trust double not null,   -- s = F / (F + c^2), in [0, 1]; 1 for a seed
  eigentrust double not null,         -- share of the personalised walk, in [0, 1]
  distance integer,                   -- hops from the nearest seed; null beyond TRUST_HOPS
  path integer[] not null,            -- strongest path, seed first, the contributor last; empty if none
  denounced_by_seed boolean not null,
  primary key (repository_id, contributor_id)
);

-- What a contributor score is computed from, as of the newest pass.
create table features (
  contributor_id integer not null,
  repository_id integer not null,
  clean integer not null,             -- labelled clean, in every repository that counts
  not_clean integer not null,
  merged_here integer not null,       -- in this repository (for the site: in all that count)
  settled_here integer not null,
  waiting integer not null,           -- merged, window still open
  structural_trust double not null,
  eigentrust double not null,
  primary key (contributor_id, repository_id)
);

-- Every score and decision ever made; a row is never overwritten.
create table scores (
  score_id varchar primary key,       -- hash of subject, moment and inputs
  contributor_id integer not null,
  repository_id integer not null,
  pull_uri varchar,                   -- null: the contributor in that repository
  record_cid varchar,                 -- what was judged: record, round and patch
  round integer,
  patch_id varchar,
  as_of timestamp not null,           -- what was seen before this moment counted
  probability double,                 -- P(clean) in [0, 1]; null: not enough evidence
  probability_bp integer,             -- the same in basis points
  low double not null,                -- 95 % interval
  high double not null,
  cases integer not null,             -- settled contributions behind it
  structural_trust double not null,
  eigentrust double not null,
  content_risk double,                -- [0, 1]; null: not reviewed
  lane varchar not null,              -- 'fast_lane', 'normal_queue', 'needs_human'
  reasons varchar not null,           -- JSON list of {code, params}, strongest first
  factors varchar not null,           -- JSON list of {name, value, effect}
  model_version varchar not null,
  thresholds varchar not null,        -- JSON
  decided_clock timestamp not null
);

-- The newest score of each contributor in each repository (0: site).
create table current_scores (
  contributor_id integer not null,
  repository_id integer not null,
  as_of timestamp not null,
  probability double,
  probability_bp integer,
  low double not null,
  high double not null,
  cases integer not null,
  structural_trust double not null,
  eigentrust double not null,
  content_risk double,
  lane varchar not null,
  reasons varchar not null,
  factors varchar not null,
  model_version varchar not null,
  thresholds varchar not null,
  primary key (contributor_id, repository_id)
);

-- The newest decision on each open pull request of a watched repository.
create table current_decisions (
  pull_uri varchar primary key,
  contributor_id integer not null,
  repository_id integer not null,
  record_cid varchar,
  round integer,
  patch_id varchar,
  own boolean not null,               -- the author may push here: a group of its own, never in lane counts
  as_of timestamp not null,
  probability double,
  probability_bp integer,
  low double not null,
  high double not null,
  cases integer not null,
  structural_trust double not null,
  eigentrust double not null,
  content_risk double,
  lane varchar not null,
  reasons varchar not null,
  factors varchar not null,
  model_version varchar not null,
  thresholds varchar not null
);
