-- People, repositories and vouches.

-- Everyone who wrote a Tangled record here or is the subject of one. Repository DIDs are not people.
create table contributors (
  did varchar primary key,
  contributor_id integer not null,    -- given at ingest, in order of arrival
  first_seen_at timestamp,            -- null: so far only a knot named them, and no record is by or about them
  handle varchar,                     -- a claim of the DID document
  handle_verified boolean not null,   -- the handle's own domain names this DID
  pds varchar,                        -- https origin of the personal data server
  did_created_at timestamp,           -- first operation in the PLC log; null for did:web
  account_status varchar not null,    -- 'active', 'deactivated', 'deleted', 'takendown', 'suspended', ...; 'erasing'
  archived_rev varchar                -- highest rev among their rows that moved to a file; the table has the others
);

-- People whose account is not active on the network: they are not shown, and their statements about others do not count
-- at this time. 'erasing': an erasure has begun. Other statuses ('throttled', 'desynchronized') hide nobody.
create view hidden_people as
select contributor_id, account_status from contributors
where account_status in ('deactivated', 'takendown', 'suspended', 'deleted', 'inactive', 'erasing');

-- Repositories by the key that pull requests name: the repository's DID, else the at-uri of its record.
create table repositories (
  repo_key varchar primary key,
  repository_id integer not null,     -- from 1; 0 is the site
  owner_id integer,                   -- named by the operator, else the first to claim the key; null until one is seen
  rkey varchar,
  name varchar,
  knot varchar,                       -- host of the git server
  spindle varchar,                    -- host of the CI server
  written_at timestamp,
  seen_at timestamp,
  deleted_at timestamp,
  upstream varchar                    -- 'owner/name' on GitHub that the record links; empty: none; null: not read yet
);

create sequence repository_numbers start 1;

-- Other names of a repository (older pull requests name the record's at-uri, newer ones the DID).
create table repository_aliases (
  alias varchar primary key,
  repository_id integer not null
);

-- Repositories that a maintainer added: only these have their own queue, decisions, patches and seeds.
create table watched_repositories (
  repository_id integer primary key,
  review varchar not null,            -- 'off' (no content verdict), 'deterministic', 'claude'
  watched_at timestamp not null
);

-- People configured as maintainers; repository_id 0 for the whole site.
create table maintainers (
  contributor_id integer not null,
  repository_id integer not null,
  primary key (contributor_id, repository_id)
);

-- Push rights on a repository with their times. The row of an ended right stays: its holder's earlier actions still count.
create table push_holders (
  repository_id integer not null,
  contributor_id integer not null,
  role varchar not null,              -- 'owner', 'collaborator'
  learned_from varchar not null,      -- 'owner' (of the record), 'knot' (listCollaborators), 'record' (of the owner)
  held_from timestamp,                -- from the knot or the owner's record, never later than it was learned; null: always
  held_until timestamp                -- when its end was seen; null: it has not ended
);

-- Vouches and denounces, every version; the present one has no superseded_at.
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
