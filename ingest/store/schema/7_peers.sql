-- Assessments that peers, other sites of Sunstead, wrote about pull requests. A deleted one has no row.
create table peer_assessments (
  uri varchar primary key,
  author_id integer not null,         -- the peer's account
  record_cid varchar,                 -- this and the next two: of the newest version that is known of
  rev varchar,
  subject_uri varchar not null,       -- the pull request
  learned_at timestamp not null,      -- when the stream, or a listing, brought that version
  checked_cid varchar,                -- record_cid when the repository was last asked; another one: its proof is due
  proof varchar,                      -- 'proven', 'refused'; null: not asked yet. Only what is proven counts
  reason varchar,                     -- why it was refused
  proven_rev varchar,                 -- revision of the repository that proved it: an older one proves nothing later
  subject_cid varchar,                -- this and the next columns: what the proven record says
  patch_id varchar,
  decision varchar,                   -- 'fast_lane', 'normal_queue', 'needs_human', 'withdrawn'
  reasons varchar[],                  -- codes
  second_hand boolean,                -- it rests on assessments of others
  evaluator varchar,
  certificate varchar,                -- SHA-256
  since timestamp,                    -- when this decision on this version was first proven here
  checked_at timestamp
);

-- The first thing of its own that a peer said of each version: it stays when the peer changes or deletes its record, else a
-- peer could take back whatever people's public words show to be a miss, before the audit is answered.
create table peer_words (
  author_id integer not null,         -- the peer's account
  pull_uri varchar not null,
  record_cid varchar not null,        -- the version that stood here then; '' if its record has none
  patch_id varchar,
  flagged boolean not null,           -- the peer sent it to a person
  since timestamp not null,           -- when that was first proven here
  primary key (author_id, pull_uri, record_cid)
);

-- How each peer's word on an audited pull request compares with the answer. It stays when the peer deletes its record, else
-- a peer could keep only its hits.
create table peer_outcomes (
  author_id integer not null,         -- the peer's account
  pull_uri varchar not null,
  flagged boolean not null,           -- the peer had sent it to a person, before it was settled and answered
  bad boolean not null,               -- the person would not have merged it as sent
  known_from timestamp not null,
  primary key (author_id, pull_uri)
);
