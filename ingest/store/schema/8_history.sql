-- Past pull requests that an operator imported from another forge, marked by source, so that they can be removed again.
-- People's names are stored only as numbers, titles only as their length and a few marks: a name that nobody tied to a DID
-- can only be guessed.
create table imported_pulls (
  source varchar not null,
  repository varchar not null,        -- the file's name for it
  number bigint not null,
  repository_id bigint not null,      -- a negative number made of source and name
  author_id bigint not null,          -- contributor_id if tied to a DID; else a negative number made of source and name
  opened_at timestamp not null,
  observed_until timestamp not null,  -- end of the time in which it was watched
  state varchar not null,             -- 'open', 'closed', 'merged'
  merged_at timestamp,                -- never before opened_at
  refused_at timestamp,               -- closed, or 180 days quiet
  reverted_at timestamp,              -- this and the next times are never before merged_at
  patched_at timestamp,               -- first change of its lines within 14 days
  patched_fix_at timestamp,           -- first such change that reads like a fix
  failed_at timestamp,                -- second failure of its checks
  checks_known boolean not null,      -- true if the file says anything about its checks
  as_sent integer not null,           -- 1: the first round was merged; 0: another round was; -1: unknown
  push_holder boolean not null,       -- the author could push there at the opening, by the file or by 30 earlier merges
  is_bot boolean not null,
  usable boolean not null,            -- false: the file leaves it out of every figure
  additions bigint not null,
  deletions bigint not null,
  files_touched bigint not null,
  binary_files bigint,
  touches_tests boolean,              -- this and the next two: null if the file does not say
  docs_only boolean,
  touches_sensitive boolean,
  title_length integer,               -- null: none, or one word that may be the name of a branch
  title_says varchar[]                -- marks of ingest/history_import/pulls.py; null as title_length, or imported by an older version
);

-- Imports with their times.
create table imported_sources (
  source varchar primary key,
  sha256 varchar not null,            -- of the file
  pulls bigint not null,
  people bigint not null,
  tied bigint not null,               -- people with a DID
  imported_clock timestamp not null
);
