-- Settings of a watched repository by its maintainers; a repository without a row has the defaults.
create table repository_settings (
  repository_id integer primary key,
  version integer not null,           -- counts the changes; a message with an older version is ignored
  set_at timestamp not null,          -- when the newest change was made, by the web's clock
  budget double,                      -- share of false approvals in (0, 1); null: the operator's
  alarm_budget double,                -- share of clean work in (0, 1) that a low probability may send to a person; null: the operator's
  window_days integer,                -- days until a merge counts as clean; null: the operator's
  tier varchar not null,              -- 'public', 'sensitive'
  never_fast_paths varchar[] not null,  -- path patterns in the form of .gitignore, in addition to those for all repositories
  sensitive_paths varchar[] not null,   -- path patterns that a person always reads, in addition to the operator's
  accepted_issuers varchar[] not null,  -- DIDs whose attestations count, and that need none themselves
  organisation_domains varchar[] not null,  -- a did:web on one of these counts as such an issuer
  shadow boolean not null,            -- lanes are shown as they would be, without buttons to act on them
  publish varchar,                    -- lanes that are told to everybody: 'off', 'decided', 'delayed'; null: off
  publish_since timestamp,            -- when publishing was last switched on; null: it is off
  time_zones boolean                  -- commits of pull requests are read with their coarse time zone; null: they are not
);

-- Seeds of one repository that its maintainers added to the people who may push, or removed from them.
create table seed_choices (
  repository_id integer not null,
  contributor_id integer not null,
  choice varchar not null,            -- 'added', 'removed'
  primary key (repository_id, contributor_id)
);

-- People who may push to a watched repository now, including those who were removed from its seeds.
create view own_people as
select repository_id, owner_id as contributor_id
from repositories semi join watched_repositories using (repository_id) where owner_id is not null
union
select repository_id, contributor_id
from push_holders semi join watched_repositories using (repository_id) where held_until is null;

-- Rounds that would have been fast lane while their repository was in shadow mode, and people's decisions on them.
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

-- Counts of these rounds by the UTC day of the decision, which stay after the rows above are gone.
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

-- The results of the last proof of an attestation record, at its author's and its issuer's server.
create table attestation_checks (
  uri varchar primary key,            -- of the record in the contributor's own repository
  contributor_id integer not null,
  record_cid varchar,                 -- declarations.record_cid of the checked record
  statement_uri varchar,              -- of the issuer's record
  statement_seen timestamp,           -- when the stream last brought that record before the check; null: never
  issuer varchar,                     -- DID in the proven record; null: it could not be proven
  statement varchar,                  -- text of both records, cut at 1,000 characters
  valid_from timestamp,
  valid_until timestamp,
  proof varchar not null,             -- 'proven', 'revoked', 'unverifiable'
  was_proven boolean not null,        -- at this or an earlier check
  reason varchar,                     -- the reason why it is not proven; null: it is proven
  checked_at timestamp not null       -- by the clock of the look-ups
);
