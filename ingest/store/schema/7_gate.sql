-- Inputs of the conditions of the fast lane that other tables do not have.

-- Changes of accounts that no public log has ('plc' rows of `signals` have the rest), by the stream's clock.
create table account_changes (
  contributor_id integer not null,
  kind varchar not null,              -- 'returns' (the account was gone), 'identity' (of a did:web: its document changed)
  seen_at timestamp not null,
  primary key (contributor_id, kind, seen_at)
);

-- The files that a round touches, as read for its review, or for models.
create table touched_files (
  pull_uri varchar not null,
  patch_ref varchar not null,         -- the round, as pull_requests.patch_ref names the newest
  kinds varchar[] not null,           -- kinds that no lane may let through (scoring/diff/paths.py), in order
  paths varchar[] not null,           -- new and old names
  whole boolean not null,             -- false: the list is incomplete, or not all of the change could be read
  primary key (pull_uri, patch_ref)
);

-- First rounds in watched repositories whose files are not known yet, although their text can be read or was: models
-- learn from what a pull request began with, whatever became of it. An inline patch is in the newest record alone.
create view unread_rounds as
select f.pull_uri, f.patch_ref, p.repository_id, p.seen_at, k.sha256, k.pull_uri is not null as is_stored,
  v.subject is not null as is_asked
from (select pull_uri, arg_min(patch_ref, (round, seen_at)) as patch_ref from pull_rounds group by pull_uri) f
join pull_requests p using (pull_uri)
join watched_repositories using (repository_id)
join contributors c on c.contributor_id = p.author_id
left join repositories r on r.repository_id = p.repository_id
left join patches k on k.pull_uri = f.pull_uri and k.patch_ref = f.patch_ref
left join fetches v on v.kind = 'patch' and v.subject = f.pull_uri || ' ' || f.patch_ref
where p.deleted_at is null and coalesce(k.state = 'read', true)
  and (f.patch_ref like 'blob:%' and c.pds is not null or f.patch_ref like 'compare:%' and r.knot is not null
    or f.patch_ref like 'inline:%' and f.patch_ref = p.patch_ref)
  and not exists (from touched_files t where t.pull_uri = f.pull_uri and t.patch_ref = f.patch_ref);

-- The draws of the audit, one for each round that would be fast lane without the draw. Undoing
-- the opening of a lane deletes its draws; opened anew, it draws the same.
create table audit_draws (
  pull_uri varchar not null,
  round integer not null,             -- the judged round, record and patch
  record_cid varchar not null,        -- '' if the record has none
  patch_id varchar not null,          -- '' where the patch could not be read
  repository_id integer not null,
  odds double not null,               -- probability in [0, 1] that this round or an earlier one was drawn
  drawn boolean not null,             -- a person checks it
  drawn_at timestamp not null,        -- the present of the decision
  drawn_clock timestamp not null,
  estimated boolean,                  -- in a lane that was opened on an estimate; null: no
  primary key (pull_uri, round, record_cid, patch_id)
);

-- The first decision that let each pull request through without a person. An estimated lane in shadow mode makes none:
-- the audit draws nothing from it.
create view waved_through as
select pull_uri, repository_id, min(as_of) as as_of from scores
where pull_uri is not null and lane = 'fast_lane' and (
  not contains(reasons, '{"code":"threshold_estimated"') or pull_uri in (select pull_uri from audit_draws where estimated)
) group by pull_uri, repository_id;
