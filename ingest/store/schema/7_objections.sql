-- What contributors said to a decision or wish, by a page; what they write as records stands in declarations.
create table objections (
  objection_key varchar primary key,  -- 'page:' and a number, or the at-uri of the record that a person answered
  contributor_id integer not null,    -- who objects
  pull_uri varchar,                   -- null: to being scored at all
  record_cid varchar,                 -- of that record as it was answered; null for a page
  state varchar not null,             -- 'open', 'accepted', 'rejected'
  made_at timestamp not null,
  due_at timestamp not null,          -- when a person must have answered
  answered_at timestamp,
  repository_id integer,              -- where it counts: the repository whose maintainer spoke; null: everywhere
  by_maintainer boolean               -- in the contributor's name; null: a version before 9
);

-- Who wished to stand on no leaderboard, or to stand there again; the newest word of pages and records counts.
create table leaderboard_wishes (
  contributor_id integer primary key,
  left_out boolean not null,
  told_at timestamp not null
);
