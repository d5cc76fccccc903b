-- What the maintainers of a watched repository chose for it; a repository without a row here has the defaults.
create table repository_settings (
  repository_id integer primary key,
  version integer not null,           -- counts the changes; an older message about it says nothing new
  set_at timestamp not null,          -- when the newest change was made, by the web's clock
  budget double,                      -- share of false approvals in (0, 1); null: the operator's
  alarm_budget double,                -- share of clean work in (0, 1) that a low P may send to a person; null: the operator's
  window_days integer,                -- days until a merge counts as clean; null: the operator's
  tier varchar not null,              -- 'public', 'sensitive'
  never_fast_paths varchar[] not null,  -- path patterns, as .gitignore writes them, beside those that hold everywhere
  sensitive_paths varchar[] not null,   -- path patterns of what is always read, beside the operator's
  accepted_issuers varchar[] not null,  -- DIDs whose attestations count, and who need none themselves
  organisation_domains varchar[] not null,  -- a did:web on one of these counts as such an issuer
  shadow boolean not null             -- lanes are shown as what they would be, and nobody is offered to act on them
);

-- Seeds of one repository that its maintainers chose besides those who may push, or chose not to follow.
create table seed_choices (
  repository_id integer not null,
  contributor_id integer not null,
  choice varchar not null,            -- 'added', 'removed'
  primary key (repository_id, contributor_id)
);

-- Who may push to a watched repository now: whoever was taken out of its seeds may do so still.
create view own_people as
select repository_id, owner_id as contributor_id
from repositories semi join watched_repositories using (repository_id) where owner_id is not null
union
select repository_id, contributor_id
from push_holders semi join watched_repositories using (repository_id) where held_until is null;

-- Rounds that would have been fast lane while their repository was in shadow mode, and what people did with them.
create table shadow_rounds (
  pull_uri varchar not null,
  round integer not null,
  patch_id varchar not null,          -- '' where the patch could not be read
  repository_id integer not null,
  decided_at timestamp not null,      -- as_of of the first such decision
  outcome varchar not null,           -- 'open', 'merged_as_sent', 'changed', 'closed'
  outcome_at timestamp,               -- when that was seen; null while open
  primary key (pull_uri, round, patch_id)
);

-- The same counted by the UTC day of the decision, kept after the rows above are gone.
create table shadow_days (
  repository_id integer not null,
  day timestamp not null,             -- its midnight
  would integer not null,             -- rounds that would have been fast lane
  merged_as_sent integer not null,
  changed integer not null,
  closed integer not null,
  still_open integer not null,
  written_clock timestamp not null,
  primary key (repository_id, day)
);

-- What the proofs of an attestation record came to when they were last checked, at its author's and its issuer's server.
create table attestation_checks (
  uri varchar primary key,            -- of the record in the contributor's own repository
  contributor_id integer not null,
  record_cid varchar,                 -- declarations.record_cid of what was checked
  statement_uri varchar,              -- of the issuer's record
  statement_seen timestamp,           -- when the stream last told of that record by then; null: never
  issuer varchar,                     -- DID, as the proven record names it; null: it could not be proven
  statement varchar,                  -- as both records say, cut at 1,000 characters
  valid_from timestamp,
  valid_until timestamp,
  proof varchar not null,             -- 'proven', 'revoked', 'unverifiable'
  was_proven boolean not null,        -- at this or an earlier check
  reason varchar,                     -- why it is not proven; null: it is
  checked_at timestamp not null       -- by the clock of the look-ups
);
