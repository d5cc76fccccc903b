-- The valid mark of each pull request with an outcome marked by a maintainer, and its mined outcome: computed again in
-- each pass like `labels`, which uses the mark. A mark by a person who does not maintain the repository now, or by the
-- pull request's own author, does not count.
create table marks (
  pull_uri varchar primary key,
  author_id integer not null,
  repository_id integer not null,
  actor_id integer not null,          -- the person who marked it
  outcome varchar not null,           -- 'clean', 'needed_fix', 'reverted'
  clean boolean not null,
  made_at timestamp not null,         -- by the web's clock; the newest counts, in any order of arrival
  known_from timestamp not null,      -- when it took effect here, by the stream's clock
  mined_clean boolean,                -- null: nothing was mined so far
  mined_from timestamp
);
