-- Pull requests, and facts about them from outside the stream.

-- Pull requests in their newest version, with the state set by people who may set it.
create table pull_requests (
  pull_uri varchar primary key,
  author_id integer not null,
  repository_id integer not null,
  title varchar not null,             -- cut at 300 characters
  opened_title varchar,               -- title of the first version; null: older than this column
  body varchar not null,              -- cut at 20,000 characters
  target_branch varchar,
  source_branch varchar,
  record_form varchar not null,       -- 'flat', 'target', 'rounds', 'versions'
  record_cid varchar,
  round integer not null,             -- index of the newest round, from 0
  round_count integer not null,
  patch_ref varchar,                  -- the newest round's pull_rounds.patch_ref; null if the record names no patch
  opened_at timestamp not null,       -- TID of the key, else createdAt; never later than seen_at; no lower limit: a claim
  seen_at timestamp not null,         -- first seen
  changed_at timestamp not null,      -- last version seen
  deleted_at timestamp,
  state varchar not null,             -- 'open', 'merged', 'closed', 'abandoned'
  state_at timestamp,                 -- when that state was seen; null while open from the start
  merged_at timestamp,                -- when the merge was seen; null for a back-written status: the time is unknown
  merge_proof varchar                 -- null: nobody claims a merge; 'verified', 'unverified', 'contradicted'
);

-- Every round of a pull request that was ever seen, including a swapped patch.
create table pull_rounds (
  pull_uri varchar not null,
  round integer not null,
  patch_ref varchar not null,         -- 'blob:<cid>', 'compare:<base>..<head>', 'inline:<sha256>'
  record_cid varchar,
  created_at timestamp,               -- self-declared
  seen_at timestamp not null,
  witnessed boolean not null,         -- the stream brought it; false: a listing did, and only its own key gives its time
  primary key (pull_uri, round, patch_ref)
);

-- Commits of the rounds that name commits, read once from the knot; the objects themselves are not stored.
create table round_commits (
  pull_uri varchar not null,
  patch_ref varchar not null,         -- as pull_rounds.patch_ref, 'compare:<base>..<head>'
  commit_id varchar not null,
  place integer not null,             -- in the round, the oldest is 0
  signed_by varchar,                  -- fingerprint of the key whose valid signature it has; null: it has none
  declared boolean not null,          -- the author of the pull request declared that key, before or after; never unset
  zone_band integer,                  -- 0 to 3, a quarter of the offsets from UTC; null: the repository did not ask for it
  primary key (pull_uri, patch_ref, commit_id)
);

-- Patches that were fetched; the bytes lie below DIFF_CORPUS_DIR.
create table patches (
  pull_uri varchar not null,
  patch_ref varchar not null,
  patch_id varchar,                   -- hash of the change without positions and white space; null if unreadable
  sha256 varchar,                     -- of the text; its file is <first two>/<sha256>.patch.gz; null: no longer stored
  bytes bigint not null,
  files integer not null,
  added integer not null,
  removed integer not null,
  state varchar not null,             -- 'read', 'malformed', 'oversized'
  proves boolean not null,            -- the change is more than white space, so finding it again is evidence
  series varchar[] not null,          -- patch-id of each mail of the series, in order; empty if unreadable
  change_ids varchar[] not null,      -- Change-Id trailers of the series: claims that find candidates and prove nothing
  git_reading varchar,                -- 'same': git reads the change as we do; 'different', 'refused'; null: not asked yet
  git_line integer,                   -- line of the text, from 1, where git's reading begins to differ; null: not known
  primary key (pull_uri, patch_ref)
);

-- Status records. The rights of the author decide if one counts.
create table statuses (
  status_uri varchar primary key,
  pull_uri varchar not null,
  actor_id integer not null,
  status varchar not null,            -- last segment: 'open', 'closed', 'merged', or an unknown word
  back_written boolean not null,      -- it has the key of the pull request: its time is void
  written_at timestamp not null,      -- TID of the key, else createdAt; never later than seen_at; no lower limit: a claim
  seen_at timestamp not null,
  deleted_at timestamp,
  authority varchar not null,         -- 'push_holder', 'author', 'author_push_holder', 'stranger'
  event_seq bigint not null
);

-- The bare mirror of a watched repository.
create table mirrors (
  repository_id integer primary key,
  state varchar not null,             -- 'fetched', 'failed', 'too_large', 'absent'
  reason varchar,
  bytes bigint not null,
  fetched_at timestamp,               -- the time just before its refs were last fetched; null: never
  head varchar,                       -- the server's default branch
  refs varchar not null,              -- JSON object: branch name to commit
  read_at timestamp,                  -- fetched_at of the refs with commits in the tables; null: none
  read_refs varchar not null default '{}',  -- those refs
  landings_mark varchar,              -- hash of the inputs of the last search for landings
  followups_mark varchar              -- days for which merges were followed, and a hash of the inputs
);

-- Commits of a mirror, each with the time span in which it appeared.
create table commits (
  repository_id integer not null,
  commit_id varchar not null,
  patch_id varchar,                   -- as patches.patch_id; null for merges and unreadable commits
  proves boolean not null,            -- as patches.proves
  subject varchar not null,           -- cut at 300 characters
  change_id varchar,
  reverts varchar[] not null,         -- commits that its message claims to revert, perhaps abbreviated
  authored_at timestamp not null,     -- a claim of the commit
  committed_at timestamp not null,
  signature varchar,                  -- raw gpgsig or SSH signature, cut at 10,000 characters
  absent_at timestamp,                -- no branch had it at this time; null: it was there at the first fetch
  appeared_at timestamp not null,     -- the fetch that found it
  primary key (repository_id, commit_id)
);

-- The branches of a commit, with times.
create table branch_commits (
  repository_id integer not null,
  branch varchar not null,
  commit_id varchar not null,
  absent_at timestamp,                -- the branch did not have it at this time; null: it did at the first fetch
  appeared_at timestamp not null,
  primary key (repository_id, branch, commit_id)
);

-- Commits of the target branch that carry a pull request's newest round.
create table landings (
  pull_uri varchar not null,
  commit_id varchar not null,
  branch varchar not null,
  round integer not null,
  landed_at timestamp not null,       -- branch_commits.appeared_at
  proof varchar not null,             -- 'patch_id', 'series', 'squash': proven; 'change_id', 'subject': candidates only
  followed boolean not null default false,  -- its window is over and was searched for changes of its lines
  inverse_id varchar,                 -- patch-id of the inverse: a commit with this patch-id reverts it
  proven boolean not null,            -- it appeared after the round was witnessed, nobody else offered it before, and it proves
  primary key (pull_uri, commit_id)
);

-- Later changes of merged lines.
create table pull_followups (
  pull_uri varchar not null,
  kind varchar not null,              -- 'reverted', 'patched'
  happened_at timestamp not null,
  known_from timestamp not null,
  evidence varchar not null,          -- commit that shows it
  carried_by varchar,                 -- pull request that brought that commit, where known
  primary key (pull_uri, kind, evidence)
);

-- A repository's CI result for a round; no row: the server was not asked, or did not answer.
create table ci_runs (
  pull_uri varchar not null,
  patch_ref varchar not null,         -- the round, as pull_requests.patch_ref names the newest
  commit_id varchar not null,         -- head of the round; empty if it names none
  state varchar not null,             -- 'passed', 'failed', 'running', 'never_ran'
  workflows varchar not null,         -- JSON list of {name, status}, at most 50
  observed_at timestamp not null,     -- when this was first reported
  primary key (pull_uri, patch_ref)
);

-- The page of a pull request on the forge's own site.
create table pull_pages (
  pull_uri varchar primary key,
  number integer not null,
  url varchar not null
);

-- The highest number with a page on the forge's site, for each watched repository.
create table page_walks (
  repository_id integer primary key,
  number integer not null
);

-- The position in each configured event stream of a knot or spindle.
create table event_streams (
  host varchar primary key,
  cursor_ns bigint not null,          -- `created` of the newest event, unix nanoseconds
  moved_clock timestamp not null
);

-- Pushes to watched repositories from their knot's event stream; the newest 1,000 of each repository.
create table ref_updates (
  knot varchar not null,
  repository varchar not null,        -- repositories.repo_key, even if the event used another name
  ref varchar not null,
  old_commit varchar,
  new_commit varchar,
  committer varchar,                  -- DID; empty for merges by the knot
  happened_at timestamp not null,     -- `created` of the event
  primary key (knot, repository, ref, happened_at)
);

-- Facts from outside the stream. Features read them as of a time: for each key the newest row known by that time.
-- 'plc': created_at and tombstoned (times), handle_changes, pds_moves, key_rotations, recoveries (counts up to that time).
-- 'bluesky': followers, follows, posts (counts), created_at.
-- 'deps.dev': published_at (time), deprecated (true, false), licences (JSON list), of a package in one version;
-- first_published_at (time), of a package. 'npm', 'crates.io' of a package: downloads_7_days, downloads_90_days.
-- 'document': an address that a DID document calls its own too, as key; value 'claimed'.
-- 'keytrace': an account elsewhere as key ('github:ana'), value the DID of the signer who confirmed it.
-- 'link': an address that a person calls theirs, as key; value 'mutual' if what is there names them too, else 'claimed'.
-- 'npm', 'crates.io', 'pypi' of a person: since, packages, newest, downloads of what evidence_uri names.
-- 'repository': collections, the number of authorities of the records in the person's repository.
-- 'scorecard' of a repository's upstream: score (0.0 to 10.0), scored_at (time). 'github' of it: archived (true, false),
-- pushed_at (time), stars, open_issues (counts).
create table signals (
  subject varchar not null,           -- DID, at-uri (of a repository: its key) or package URL
  source varchar not null,
  key varchar not null,
  value varchar not null,
  observed_at timestamp not null,
  known_from timestamp not null,
  expires_at timestamp,
  evidence_uri varchar,
  declared_by varchar,                -- DID that declared the link to this fact
  primary key (subject, source, key, known_from)
);
