-- Decisions of maintainers on the pages.

-- Every action from the web process: written once for its key and never changed; a correction is another row.
create table maintainer_actions (
  action_key varchar primary key,     -- the outbox's key
  kind varchar not null,              -- 'approve', 'pull_for_review', 'release', 'outcome', 'note', 'dismiss_finding', 'restore_finding', 'answer' by its author
  outcome varchar,                    -- 'clean', 'needed_fix', 'reverted'; null for other kinds
  note varchar not null,              -- the person's own words, cut at 2,000 characters
  pull_uri varchar not null,
  repository_id integer not null,
  actor_id integer not null,
  record_cid varchar,                 -- the record, round and patch that the person saw
  round integer not null,
  patch_id varchar,
  batch varchar,                      -- key of the bulk approval that contains it
  made_at timestamp not null,         -- when the person acted, by the web's clock
  known_from timestamp not null       -- when it took effect here, by the stream's clock
);

-- The state of each approval. It changes only from 'in force', except that a pull request that was closed or seemed to
-- be merged as something else may later be found on the target branch as it was approved.
create table approvals (
  action_key varchar primary key,     -- maintainer_actions.action_key
  pull_uri varchar not null,
  repository_id integer not null,
  record_cid varchar,                 -- the approved record, round and patch
  round integer not null,
  patch_id varchar not null,
  decision varchar,                   -- scores.score_id of the decision shown at the approval; null: older approvals
  state varchar not null,             -- 'in force', 'voided', 'released', 'merged as approved', 'merged something else'
  reason varchar,                     -- reason of voiding: 'changed_before' (it took effect), 'changed_after', 'closed', 'gone', 'own' (they sent it); of a merge 'not_read'
  evidence varchar,                   -- commit that carries the merge
  approved_at timestamp not null,     -- maintainer_actions.known_from
  state_at timestamp not null         -- when that state was observed, by the stream's clock
);
