-- Past pull requests that an operator imported from another forge, marked by source, so that they can be removed again.
-- Of people's names nothing is kept but numbers, and of titles their length and a few marks: a name that nobody tied to
-- a DID can only be guessed.
create table imported_pulls (
  source varchar not null,
  repository varchar not null,        -- as the file calls it
  number bigint not null,
  repository_id bigint not null,      -- a negative number made of source and name
  author_id bigint not null,          -- contributor_id where tied to a DID; else a negative number of source and name
  opened_at timestamp not null,
  observed_until timestamp not null,  -- until when what happens to it was watched
  state varchar not null,             -- 'open', 'closed', 'merged'
  merged_at timestamp,                -- never before opened_at
  refused_at timestamp,               -- closed, or 180 days quiet
  reverted_at timestamp,              -- neither this nor what follows lies before merged_at
  patched_at timestamp,               -- first change of its lines within 14 days
  patched_fix_at timestamp,           -- first such change that reads like a fix
  failed_at timestamp,                -- second failure of its checks
  checks_known boolean not null,      -- whether the file says anything about its checks
  as_sent integer not null,           -- 1: the first round is what was merged; 0: another was; -1: nobody knows
  push_holder boolean not null,       -- the author might push there when it was opened, as the file says or 30 merges before
  is_bot boolean not null,
  usable boolean not null,            -- false: the file leaves it out of every figure
  additions bigint not null,
  deletions bigint not null,
  files_touched bigint not null,
  binary_files bigint,
  touches_tests boolean,              -- this and what follows: null where the file does not say
  docs_only boolean,
  touches_sensitive boolean,
  title_length integer,               -- null: none, or one word that may be the name of a branch
  title_says varchar[]                -- marks of ingest/history_import/pulls.py; null likewise, and where it was imported before them
);

-- What was imported, and when.
create table imported_sources (
  source varchar primary key,
  sha256 varchar not null,            -- of the file
  pulls bigint not null,
  people bigint not null,
  tied bigint not null,               -- people with a DID
  imported_clock timestamp not null
);
