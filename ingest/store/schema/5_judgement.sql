-- What follows from all of it: outcomes, trust, scores, decisions.

-- Outcomes that count, one per settled pull request, each with the moment from which it was known.
create table labels (
  pull_uri varchar primary key,
  author_id integer not null,
  repository_id integer not null,
  clean boolean not null,             -- merged by another push-holder and quiet for LABEL_WINDOW_DAYS; else false
  known_from timestamp not null
);

-- People whose judgement is taken as given, per watched repository and for the site.
create table seeds (
  repository_id integer not null,
  contributor_id integer not null,
  role varchar not null,              -- 'owner', 'push_holder', 'maintainer'
  primary key (repository_id, contributor_id)
);

-- Structural trust from each seed set; only people whom it reaches or whom somebody trusted denounces. Figures are cut
-- (never rounded up) to four significant digits, eigentrust to three: a vouch somewhere moves everybody's a little, and
-- a row is written only where more than that has changed. What is explained is computed in full.
create table trust (
  repository_id integer not null,
  contributor_id integer not null,
  first_passage double not null,      -- F >= 0, denounces counted
  structural_trust double not null,   -- what is served, in [0, 1], 1 for a seed: s = F / (F + c^2), or under TRUST=eigentrust that scaled
  eigentrust double not null,         -- share of the personalised walk, in [0, 1]
  distance integer,                   -- hops from the nearest seed; null beyond TRUST_HOPS
  path integer[] not null,            -- strongest path, seed first, the contributor last; empty if none
  path_merges smallint[] not null,    -- for each vouch on it the number of merges that it stands for; 0: a real vouch
  dominator integer,                  -- the account nearest to them, no seed, whose loss would end this trust; null: none
  denounced_by_seed boolean not null,
  trusted_denouncers integer not null,  -- how many denounce whom this seed set trusts with s >= .1, seeds included
  denounce_weight double not null,    -- D >= 0: trust that stands behind denounces, the seeds' own apart
  keep double not null,               -- share of the in-flow that denounces leave, in [0, 1]
  primary key (repository_id, contributor_id)
);

-- What a contributor score is computed from, as of the newest pass.
create table features (
  contributor_id integer not null,
  repository_id integer not null,
  clean integer not null,             -- labelled clean, in every repository that counts
  not_clean integer not null,
  merged_here integer not null,       -- in this repository (for the site: in all that count)
  settled_here integer not null,
  waiting integer not null,           -- merged, window still open
  structural_trust double not null,
  eigentrust double not null,
  trusted_denouncers integer not null,
  primary key (contributor_id, repository_id)
);

-- Every score and decision ever made; a row is never overwritten.
create table scores (
  score_id varchar primary key,       -- hash of subject, moment and inputs
  contributor_id integer not null,
  repository_id integer not null,
  pull_uri varchar,                   -- null: the contributor in that repository
  record_cid varchar,                 -- what was judged: record, round and patch
  round integer,
  patch_id varchar,
  as_of timestamp not null,           -- what was seen before this moment counted
  probability double,                 -- P(clean) in [0, 1]; null: not enough evidence
  probability_bp integer,             -- the same in basis points
  low double not null,                -- 95 % interval
  high double not null,
  cases integer not null,             -- settled contributions behind it
  structural_trust double not null,
  eigentrust double not null,
  content_risk double,                -- [0, 1]; null: not reviewed
  lane varchar not null,              -- 'fast_lane', 'normal_queue', 'needs_human'
  reasons varchar not null,           -- JSON list of {code, params}, strongest first
  factors varchar not null,           -- JSON list of {name, value, effect}
  model_version varchar not null,
  trust_measure varchar not null default 'first_passage',  -- what structural_trust is: 'first_passage', 'eigentrust'
  thresholds varchar not null,        -- JSON
  decided_clock timestamp not null,
  inputs varchar,                     -- JSON of scoring.inputs.Inputs: what a decision on a pull request was made from
  data_version bigint                 -- how many changes of what is known had been written when they were read
);

-- The newest score of each contributor in each repository (0: site). Its figures are not packed, which makes a file of
-- a million 8 % larger: to unpack those of 100 people took 3 ms of 5.
create table current_scores (
  contributor_id integer not null,
  repository_id integer not null,
  as_of timestamp not null,
  probability double using compression uncompressed,
  probability_bp integer,
  low double using compression uncompressed not null,
  high double using compression uncompressed not null,
  cases integer using compression uncompressed not null,
  structural_trust double using compression uncompressed not null,
  eigentrust double using compression uncompressed not null,
  content_risk double using compression uncompressed,
  lane varchar not null,
  reasons varchar not null,
  factors varchar not null,
  model_version varchar not null,
  trust_measure varchar not null,
  thresholds varchar not null,
  fingerprint varchar,                -- of evidence, names, thresholds and rules: the same ones are not judged again
  primary key (contributor_id, repository_id)
);
-- Eight people at once are found in 1 ms, by the statistics of row groups in 3; one in .4 in place of .6.
create index current_scores_by_person on current_scores (contributor_id);

-- The newest decision on each open pull request of a watched repository.
create table current_decisions (
  pull_uri varchar primary key,
  contributor_id integer not null,
  repository_id integer not null,
  record_cid varchar,
  round integer,
  patch_id varchar,
  own boolean not null,               -- the author may push here: a group of its own, never in lane counts
  as_of timestamp not null,
  probability double,
  probability_bp integer,
  low double not null,
  high double not null,
  cases integer not null,
  structural_trust double not null,
  eigentrust double not null,
  content_risk double,
  lane varchar not null,
  reasons varchar not null,
  factors varchar not null,
  model_version varchar not null,
  trust_measure varchar not null,
  thresholds varchar not null,
  inputs varchar,                     -- as in `scores`
  borrowed double,                    -- what only orders the queue where probability is null (scoring/models/starter.py); null: a
                                      -- model of one's own serves, the author may push here, or there is no such file
  borrowed_from integer               -- how many other projects that was learned from
);
