-- Objections of contributors, written on a page; those written as records are in declarations.
create table objections (
  objection_key varchar primary key,  -- 'page:' and a number, or the at-uri of the record that a person answered
  contributor_id integer not null,    -- the person who objects
  pull_uri varchar,                   -- null: to being scored at all
  record_cid varchar,                 -- of that record when it was answered; null for a page
  state varchar not null,             -- 'open', 'accepted', 'rejected'
  made_at timestamp not null,
  due_at timestamp not null,          -- latest time for a person's answer
  answered_at timestamp,
  repository_id integer,              -- the repository of the maintainer who spoke, where it counts; null: everywhere
  by_maintainer boolean               -- a maintainer acted in the contributor's name; null: a version before 9
);

-- People's wishes to be left out of leaderboards or to be listed again; the newest one on pages or in records counts.
create table leaderboard_wishes (
  contributor_id integer primary key,
  left_out boolean not null,
  told_at timestamp not null
);
