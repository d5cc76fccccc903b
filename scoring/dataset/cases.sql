-- The table `cases`: every pull request that a model may learn from or be judged on, our own and imported ones, in one
-- shape. Read after the statements `outcomes` and `counting` of derived.sql.
-- $now: the present. Only what was seen before it counts. $window: days until a merge counts as clean. $quiet: days
-- without a new round after which an open one counts as refused.
--
-- Own ones are dated by when they were first seen: the time that a record claims is its author's choice. What an author
-- who may push there merged alone is left out: it is neither merged nor refused. That others call something merged is
-- as if nobody had said so: left out as well, it would take refusals and long waits off a record (docs/threat-model.md,
-- rules 3 and 9).
-- Likewise a round that comes after the quiet days makes nothing of that open again, unless it is merged after all.
-- A person's mark stands for what was mined. One that takes trouble back is honoured from the beginning: what was
-- mistaken was never so.
-- The content of a change counts only where it was read within a day of its arrival, or where all of a repository was
-- read or asked for. What is read later, before the rest, is read because of what became of it: on a site's first day
-- those that nobody merged yet, and merges that are still watched. When only such of the 4,802 of a recorded history were
-- read, a model learned that touching tests takes a chance from 22 to 3 %. The columns `sent_*` hold it whenever it was
-- read, for the starter model, which learned from projects that were read whole.
-- A title of one word or none says nothing: they follow from what became of the pull request (ingest/history_import/pulls.py).
create or replace temp table cases as
with rounds as (
  select pull_uri, arg_min(patch_ref, (round, seen_at)) as first_ref, max(seen_at) as active_at,
    min(seen_at) filter (coalesce(next_at > seen_at + to_days($quiet), true)) as left_at
  from (
    select *, lead(seen_at) over (partition by pull_uri order by seen_at) as next_at
    from pull_rounds where seen_at <= $now
  ) group by pull_uri
), landed as (
  select pull_uri, arg_min(round, landed_at) as round from landings where proven and landed_at <= $now group by pull_uri
), carried as (
  select r.pull_uri, arg_max(r.patch_ref, (r.round, r.seen_at)) as merged_ref
  from pull_rounds r join outcomes o using (pull_uri) left join landed l using (pull_uri)
  where o.merged and r.seen_at <= $now and coalesce(r.round = l.round, r.seen_at <= o.settled_at)
  group by r.pull_uri
), followed as (
  select f.pull_uri, min(f.known_from) filter (f.kind = 'reverted') as reverted_at,
    min(f.known_from) filter (in_window) as patched_at,
    min(f.known_from) filter (in_window and regexp_matches(c.subject, '(?i)\b(fix|revert|regress)')) as patched_fix_at
  from (
    select f.*, o.repository_id, f.kind = 'patched' and f.happened_at <= o.settled_at + to_days($window) as in_window
    from pull_followups f join outcomes o using (pull_uri) where o.merged and f.known_from <= $now
  ) f left join commits c on c.repository_id = f.repository_id and c.commit_id = f.evidence
  group by f.pull_uri
), checked as (
  select pull_uri, bool_or(state in ('passed', 'failed')) as checks_known,
    (list(observed_at order by observed_at) filter (state = 'failed'))[2] as failed_at
  from ci_runs where observed_at <= $now group by pull_uri
), read_whole as (
  select repository_id from watched_repositories where repository_id not in (
    select repository_id from unread_rounds where seen_at <= $now - interval 1 day and (is_stored or not is_asked))
), own as (
  select p.pull_uri as key, p.author_id, p.repository_id, p.state, p.seen_at as opened_at,
    coalesce(p.opened_title, p.title) as title,
    greatest(p.seen_at, case when o.merged then r.active_at else r.left_at end) + to_days($quiet) as quiet_at,
    o.merged, o.settled_at, m.clean as marked_clean,
    coalesce(v.fetched_clock <= p.seen_at + interval 1 day, false)
      or p.repository_id in (select repository_id from read_whole) as content_counts,
    m.outcome as marked, m.known_from as marked_from, r.first_ref, s.merged_ref, f.* exclude (pull_uri),
    c.failed_at, coalesce(c.checks_known, false) as checks_known
  from pull_requests p semi join counting using (repository_id)
  left join outcomes o using (pull_uri)
  left join marks m using (pull_uri)
  left join rounds r using (pull_uri)
  left join carried s using (pull_uri)
  left join followed f using (pull_uri)
  left join checked c using (pull_uri)
  left join fetches v on v.kind = 'patch' and v.subject = p.pull_uri || ' ' || r.first_ref
  where p.seen_at <= $now and (o.pull_uri is not null or not exists (
    from statuses s where s.pull_uri = p.pull_uri and s.authority = 'author_push_holder' and s.status = 'merged'
      and s.deleted_at is null and s.seen_at <= $now))
), sent as (
  select p.key, p.content_counts, p.author_id::bigint as author_id, p.repository_id::bigint as repository_id,
    exists (from push_holders h where h.repository_id = p.repository_id and h.contributor_id = p.author_id
      and coalesce(h.held_from <= p.opened_at, true) and coalesce(p.opened_at < h.held_until, true)) as push_holder,
    p.opened_at, $now::timestamp as observed_until,
    case when p.merged then greatest(p.settled_at, p.opened_at) end as merged_at,
    least(case when not p.merged then p.settled_at end,
      case when p.quiet_at <= $now and not coalesce(p.quiet_at > p.settled_at, false) then p.quiet_at end) as refused_at,
    case when not coalesce(p.marked_clean, false)
      then least(p.reverted_at, case when p.marked = 'reverted' then p.marked_from end) end as reverted_at,
    case when not coalesce(p.marked_clean, false)
      then least(p.patched_at, case when p.marked = 'needed_fix' then p.marked_from end) end as patched_at,
    case when not coalesce(p.marked_clean, false)
      then least(p.patched_fix_at, case when p.marked = 'needed_fix' then p.marked_from end) end as patched_fix_at,
    case when not coalesce(p.marked_clean, false) then p.failed_at end as failed_at,
    p.checks_known,
    (case when p.merged then coalesce((a.patch_id = b.patch_id)::tinyint, -1) else -1 end)::tinyint as as_sent,
    a.added as sent_additions, a.removed as sent_deletions, a.files::bigint as sent_files,
    case when t.paths is not null then exists (select 1 from unnest(t.paths) u(path)
      where regexp_matches(path, '(?i)(^|[/._-])(tests?|specs?)([/._-]|$)')
        and not regexp_matches(path, '(?i)^\.[^/]+/')) end as sent_tests,  -- a CI job that runs tests is none
    case when t.paths is not null then len(t.paths) > 0 and not exists (select 1 from unnest(t.paths) u(path)
      where not regexp_matches(path, '(?i)(^|/)docs?/|\.(md|rst|txt|adoc)$')) end as sent_docs,
    case when t.paths is not null then len(t.kinds) > 0 end as sent_sensitive,
    case when contains(trim(p.title), ' ') then length(trim(p.title))::integer end as title_length,
    title_says(p.title) as title_says,
    false as is_bot, p.state
  from own p
  left join patches a on a.pull_uri = p.key and a.patch_ref = p.first_ref and a.state = 'read'
  left join patches b on b.pull_uri = p.key and b.patch_ref = p.merged_ref and b.state = 'read'
  left join touched_files t on t.whole and t.pull_uri = p.key and t.patch_ref = p.first_ref
), own_cases as (
  select * exclude (content_counts), null::bigint as binary_files,
    if(content_counts, sent_additions, null) as additions, if(content_counts, sent_deletions, null) as deletions,
    if(content_counts, sent_files, null) as files_touched, if(content_counts, sent_tests, null) as touches_tests,
    if(content_counts, sent_docs, null) as docs_only, if(content_counts, sent_sensitive, null) as touches_sensitive
  from sent
), imported_cases as (
  select concat('imported:', i.source, ':', i.repository, '#', i.number) as key, i.author_id,
    coalesce(a.repository_id::bigint, i.repository_id) as repository_id,
    i.push_holder, i.opened_at, i.observed_until, i.merged_at, i.refused_at, i.reverted_at,
    case when i.patched_at <= i.merged_at + to_days($window) then i.patched_at end as patched_at,
    case when i.patched_fix_at <= i.merged_at + to_days($window) then i.patched_fix_at end as patched_fix_at,
    i.failed_at, i.checks_known, i.as_sent::tinyint as as_sent, i.additions, i.deletions, i.files_touched,
    i.binary_files, i.touches_tests, i.docs_only, i.touches_sensitive, i.title_length, i.title_says,
    i.additions as sent_additions, i.deletions as sent_deletions, i.files_touched as sent_files,
    i.touches_tests as sent_tests, i.docs_only as sent_docs, i.touches_sensitive as sent_sensitive,
    i.is_bot, i.state
  from imported_pulls i left join repository_aliases a on a.alias = i.repository
  where i.usable
)
from own_cases union all by name from imported_cases order by opened_at, key;
