-- Results derived from all other tables: outcomes, trust, scores, decisions.

-- Outcomes that count, one per settled pull request, each with the time from which it was known.
create table labels (
  pull_uri varchar primary key,
  author_id integer not null,
  repository_id integer not null,
  clean boolean not null,             -- merged by another push-holder and quiet for LABEL_WINDOW_DAYS; else false
  known_from timestamp not null
);

-- People whose judgement is trusted without evidence, per watched repository and for the site.
create table seeds (
  repository_id integer not null,
  contributor_id integer not null,
  role varchar not null,              -- 'owner', 'push_holder', 'maintainer'
  primary key (repository_id, contributor_id)
);

-- Structural trust from each seed set; only people whom it reaches or whom a trusted person denounces, and of a
-- repository's set only those who offered something there: 1,000 repositories that reach 100,000 people would else be
-- 100,000,000 rows. Of others it is computed when somebody asks (scoring/queries/people/trust.py). Figures are cut
-- (never rounded up) to four significant digits, eigentrust to three: each vouch moves everybody's trust a little, and a
-- row is written only if more than that has changed. Explanations are computed in full. EigenTrust is one walk, from the
-- site's seeds: the rows of the site hold it for every repository.
create table trust (
  repository_id integer not null,
  contributor_id integer not null,
  first_passage double not null,      -- F >= 0, denounces counted
  structural_trust double not null,   -- the served value, in [0, 1], 1 for a seed: s = F / (F + c^2), or scaled eigentrust under TRUST=eigentrust
  eigentrust double,                  -- share of the walk from the site's seeds, in [0, 1]; null in rows of a repository
  distance integer,                   -- hops from the nearest seed; null beyond TRUST_HOPS
  path integer[] not null,            -- strongest path, seed first, the contributor last; empty if none
  path_merges smallint[] not null,    -- for each step of the path the number of merges behind it; 0: a real vouch
  dominator integer,                  -- the nearest account, not a seed, whose loss would end this trust; null: none
  denounced_by_seed boolean not null,
  trusted_denouncers integer not null,  -- number of denouncers whom this seed set trusts with s >= .1, including seeds
  denounce_weight double not null,    -- D >= 0: trust behind denounces, without the seeds' own
  keep double not null,               -- share of the inflow that remains after denounces, in [0, 1]
  other_seed boolean,                 -- a second seed of the repository certainly reaches them; false for the site's set
  primary key (repository_id, contributor_id)
);

-- The inputs of a contributor score, as of the newest pass.
create table features (
  contributor_id integer not null,
  repository_id integer not null,
  clean integer not null,             -- labelled clean, in all repositories that count
  not_clean integer not null,
  merged_here integer not null,       -- in this repository (for the site: in all repositories that count)
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
  record_cid varchar,                 -- the judged record, round and patch
  round integer,
  patch_id varchar,
  as_of timestamp not null,           -- everything seen before this time counted
  probability double,                 -- P(clean) in [0, 1]; null: not enough evidence
  probability_bp integer,             -- probability in basis points
  low double not null,                -- 95 % interval
  high double not null,
  cases integer not null,             -- number of settled contributions behind it
  structural_trust double not null,
  eigentrust double not null,
  content_risk double,                -- [0, 1]; null: not reviewed
  lane varchar not null,              -- 'fast_lane', 'normal_queue', 'needs_human'
  reasons varchar not null,           -- JSON list of {code, params}, strongest first
  factors varchar not null,           -- JSON list of {name, value, effect}
  model_version varchar not null,
  trust_measure varchar not null default 'first_passage',  -- measure of structural_trust: 'first_passage', 'eigentrust'
  thresholds varchar not null,        -- JSON
  decided_clock timestamp not null,
  inputs varchar,                     -- JSON of the inputs of a decision on a pull request
  data_version bigint                 -- number of changes of the inputs written before they were read
);

-- The newest score of each contributor in each repository (0: site). Its figures are not packed, which makes a file of
-- a million 8 % larger: unpacking those of 100 people took 3 ms of 5.
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
  fingerprint varchar,                -- hash of evidence, names, thresholds and rules: not computed again while equal
  primary key (contributor_id, repository_id)
);
-- With this index eight people are found in 1 ms, by the statistics of row groups in 3; one person in .4 instead of .6.
create index current_scores_by_person on current_scores (contributor_id);

-- The newest decision on each open pull request of a watched repository.
create table current_decisions (
  pull_uri varchar primary key,
  contributor_id integer not null,
  repository_id integer not null,
  record_cid varchar,
  round integer,
  patch_id varchar,
  own boolean not null,               -- the author may push here: a separate group, never in lane counts
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
  borrowed double,                    -- orders the queue if probability is null (scoring/models/starter.py); null: our own model
                                      -- serves, the author may push here, or there is no starter file
  borrowed_from integer,              -- number of other projects from which that was learned
  graph double                        -- P(clean) by the graph network where it is shown (SHOW_GRAPH_MODEL); decides nothing
);
