-- Records of smaller weight, one table a kind. `author_id` wrote it; `deleted_at` if its author deleted it.
create table comments (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  form varchar not null,              -- 'feed', 'pull', 'issue': which of the three comment records
  subject_uri varchar not null,       -- pull request or issue
  subject_cid varchar,                -- the revision commented on
  body varchar not null,              -- cut at 20,000 characters
  reply_to varchar,
  round integer,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table issues (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  repository varchar not null,        -- the record's name for it: DID or at-uri
  title varchar not null,
  body varchar not null,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table issue_states (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  issue_uri varchar not null,
  state varchar not null,
  back_written boolean not null,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table follows (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  subject varchar not null,           -- DID
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table stars (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  subject varchar not null,           -- DID or at-uri
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table reactions (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  subject_uri varchar not null,
  reaction varchar not null,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table label_definitions (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  name varchar not null,
  value_type varchar not null,        -- JSON
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table label_operations (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  subject_uri varchar not null,
  added varchar not null,             -- JSON list of {key, value}
  removed varchar not null,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table collaborators (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  form varchar not null,              -- 'collaborator', 'invite', 'acceptance'
  repository varchar,                 -- DID or at-uri; null if the record has none
  subject varchar,                    -- DID of the collaborator
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table servers (
  uri varchar primary key,
  author_id integer not null,         -- claims to own it
  record_cid varchar,
  kind varchar not null,              -- 'knot', 'spindle'
  host varchar not null,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table server_members (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  kind varchar not null,              -- 'knot', 'spindle'
  host varchar,
  subject varchar,                    -- DID
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table profiles (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  description varchar not null,
  links varchar not null,             -- JSON list of https URLs that the person declares
  bluesky boolean not null,           -- true if the profile there may be shown
  location varchar,
  pronouns varchar,
  preferred_handle varchar,
  pinned varchar not null,            -- JSON list
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table public_keys (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  name varchar not null,
  key varchar not null,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

-- SSH keys that people declare now, by fingerprint as `ssh-keygen -l` prints it. A record that is written again may hold
-- another key, so a key counts from its newest version.
create view declared_keys as
with keys as (
  select author_id, changed_at as seen_at, try(from_base64(
    regexp_extract(key, '^\s*[a-z0-9@.-]+\s+([A-Za-z0-9+/]+=*)', 1))) as wire
  from public_keys where deleted_at is null
)
select author_id, 'SHA256:' || rtrim(to_base64(unhex(sha256(wire))), '=') as fingerprint, min(seen_at) as seen_at
from keys where wire is not null and octet_length(wire) > 0 group by all;

-- Accounts elsewhere that people call theirs (dev.keytrace.claim); what is proven of them stands in `signals`.
create table account_claims (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  type varchar not null,              -- 'github', 'npm', 'dns', …
  subject varchar not null,           -- the account's name there
  claim_uri varchar not null,         -- where its owner names the DID
  status varchar not null,            -- the author's own word: 'verified', 'failed', 'retracted'
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table strings (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  filename varchar not null,
  description varchar not null,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

create table artifacts (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  repository varchar not null,
  name varchar not null,
  tag varchar,
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);

-- Our own records (ingest/records/lexicons): people's declarations about themselves, and future records of Sunstead.
create table declarations (
  uri varchar primary key,
  author_id integer not null,
  record_cid varchar,
  kind varchar not null,              -- 'jurisdiction', 'jurisdiction_attestation', 'jurisdiction_statement', 'objection', 'leaderboard_opt_out', 'assessment'
  subject varchar,                    -- DID or at-uri it is about; null: its author
  value varchar not null,             -- JSON of the lexicon's fields, bounded
  written_at timestamp not null,
  seen_at timestamp not null,
  changed_at timestamp not null,
  deleted_at timestamp
);
