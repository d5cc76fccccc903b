-- Answers about pull requests that the audit drew: would you have merged it as sent? The first answer on a round is given
-- before lane and score are shown, so it is the unbiased outcome; there is no second answer on that round.
create table audits (
  audit_key varchar primary key,      -- the outbox's key
  pull_uri varchar not null,
  repository_id integer not null,
  record_cid varchar,                 -- the record, round and patch that were read
  round integer not null,
  patch_id varchar,
  odds double not null,               -- probability of the draw, in (0, 1]: the outcome weighs 1 / odds
  drawn_at timestamp not null,        -- audit_draws.drawn_at
  would_merge boolean not null,
  because varchar not null,           -- the person's own words, cut at 500 characters
  actor_id integer,                   -- the person who answered; null: erased since
  answered_at timestamp not null,     -- by the web's clock
  known_from timestamp not null,      -- when it took effect here, by the stream's clock
  estimated boolean                   -- audit_draws.estimated
);
