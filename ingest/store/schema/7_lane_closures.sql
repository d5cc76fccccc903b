-- Where a person closed the fast lane, each written once for its key. What was opened again is kept too.
create table lane_closures (
  closure_key varchar primary key,    -- the outbox's key
  repository_id integer not null,     -- 0: in every repository
  author_id integer not null,         -- 0: whoever sends it
  voucher_id integer not null,        -- 0: whoever vouches; else trust that comes through this account
  because varchar not null,           -- the person's own words, cut at 500 characters
  actor_id integer,                   -- who closed it; null: erased since
  closed_at timestamp not null,       -- by the web's clock
  known_from timestamp not null       -- when it took effect here, by the stream's clock
);

-- Which of them a person opened again.
create table lane_openings (
  closure_key varchar primary key,    -- lane_closures.closure_key
  because varchar not null,
  actor_id integer,
  opened_at timestamp not null,
  known_from timestamp not null
);
