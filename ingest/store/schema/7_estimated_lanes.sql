-- Openings of the fast lane by a maintainer on an estimate, without a certificate, each written once for its key with the
-- figures that were shown. In a repository the newest by `opened_at` is valid until it is ended.
create table estimated_lanes (
  opening_key varchar primary key,    -- the outbox's key
  repository_id integer not null,
  threshold double not null,          -- lowest P(clean) that it lets through
  source varchar not null,            -- the past that the figures come from: 'own', 'starter'
  cases double not null,              -- settled pull requests of that past, in weights, like the next columns
  let_through double not null,        -- of these
  bad double not null,                -- of these
  bad_low double not null,            -- 95 % interval of the share of bad ones
  bad_high double not null,           -- and the budget for the test of this lane
  model varchar,                      -- model of the scores: '' without one, null for lanes of an older version
  actor_id integer,                   -- the person who opened it; null: erased since
  opened_at timestamp not null,       -- by the web's clock
  known_from timestamp not null       -- when it took effect here, by the stream's clock
);

-- Ends of such lanes by a person.
create table estimated_ends (
  opening_key varchar primary key,    -- estimated_lanes.opening_key
  because varchar not null,           -- the person's own words, cut at 500 characters
  actor_id integer,
  ended_at timestamp not null,
  known_from timestamp not null
);
