-- The mark that stands for each pull request whose outcome a maintainer marked, and what was mined of the same one: made
-- anew in each pass like `labels`, which takes the mark. A mark of somebody who does not maintain the repository now, or
-- of the pull request's own author, stands for nothing.
create table marks (
  pull_uri varchar primary key,
  author_id integer not null,
  repository_id integer not null,
  actor_id integer not null,          -- who marked it
  outcome varchar not null,           -- 'clean', 'needed_fix', 'reverted'
  clean boolean not null,
  made_at timestamp not null,         -- by the web's clock; the newest counts, in whatever order they arrived
  known_from timestamp not null,      -- when it took effect here, by the stream's clock
  mined_clean boolean,                -- null: nothing was mined by now
  mined_from timestamp
);
