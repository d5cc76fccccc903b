-- Closures of the fast lane by a person, each written once for its key. Rows stay after a reopening.
create table lane_closures (
  closure_key varchar primary key,    -- the outbox's key
  repository_id integer not null,     -- 0: in every repository
  author_id integer not null,         -- 0: any author
  voucher_id integer not null,        -- 0: any voucher; else trust that comes through this account
  because varchar not null,           -- the person's own words, cut at 500 characters
  actor_id integer,                   -- the person who closed it; null: erased since
  closed_at timestamp not null,       -- by the web's clock
  known_from timestamp not null       -- when it took effect here, by the stream's clock
);

-- Reopenings by a person.
create table lane_openings (
  closure_key varchar primary key,    -- lane_closures.closure_key
  because varchar not null,
  actor_id integer,
  opened_at timestamp not null,
  known_from timestamp not null
);
