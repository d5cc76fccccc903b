-- Reviews of the contents of changes by models, with their costs.

-- One row for each paid reading, never deleted: a day's cost is their sum, and a repeated content is found here.
create table reviews (
  review_id varchar primary key,      -- cache key and the number of its earlier readings
  cache_key varchar not null,         -- hash of prompt version, model and scrubbed content
  content_hash varchar not null,      -- hash of everything scrubbed that the model got of the change
  prompt_version varchar not null,
  model varchar not null,
  pull_uri varchar,                   -- its first pull request; null: a diff by hand
  state varchar not null,             -- 'running', 'content verdict', 'no content verdict'
  reason varchar,                     -- why there is no verdict; null: there is one, or it is under way
  verdict varchar not null,           -- JSON {assessments, left_out, words_whole}, with places as the model saw them
  coverage double not null,           -- share of the readable changed lines that the model got, in [0, 1]
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_write_tokens bigint not null,
  cache_read_tokens bigint not null,
  dollars double not null,            -- while it runs: the most that it may cost
  temperature_sent double,            -- null: the request named none
  started_clock timestamp not null,
  ended_clock timestamp,
  payer varchar                       -- owner of the share of the budget: 'repository:' or, by hand, 'person:' or 'token:',
);                                    -- and a number; null: a version before 9

-- The result of a round's review by all its readers: one row for each patch, title with description, and set of rules.
-- The newest row for the present patch, title and rules counts.
create table content_reviews (
  pull_uri varchar not null,
  patch_ref varchar not null,         -- the round, as pull_requests.patch_ref
  said varchar not null,              -- md5 of title and description
  rules varchar not null,             -- version of scanners, prompt and models
  repository_id integer not null,
  record_cid varchar,
  round integer not null,
  state varchar not null,             -- 'running', 'content verdict', 'no content verdict'
  missing varchar,                    -- why there is no verdict; null: there is one, or it is under way
  attempts integer not null,          -- number of readings that began and did not end
  failures integer not null,          -- number of readings without a verdict for a temporary reason
  asked varchar not null,             -- result of the cost gate: 'nobody', 'deterministic', 'screen', 'claude', 'missing'
  asked_because varchar not null,     -- its reason's code
  reviewer varchar not null,          -- 'deterministic' or the model that read
  content_risk double not null,       -- [0, 1]
  recommended boolean not null,       -- a person should read it
  coverage double not null,           -- share of the changed lines that were read, in [0, 1]
  high_flags integer not null,
  worst varchar,                      -- type of the strongest flag; null: none
  place varchar,                      -- its place
  summary varchar not null,
  flags varchar not null,             -- JSON list of {type, severity, location, explanation}, strongest first
  findings varchar not null,          -- JSON list of {scanner, rule, type, severity, file, line, removed, quote, explanation}
  left_out varchar not null,          -- JSON list of files that the model got only in part
  prompt_version varchar,             -- null: no model read
  temperature_sent double,            -- null: none was sent
  dollars double not null,
  begun_clock timestamp not null,
  reviewed_clock timestamp,
  git_reading varchar,                -- patches.git_reading at the review, 'unknown': git could not be asked; null: older
  primary key (pull_uri, patch_ref, said, rules)
);
