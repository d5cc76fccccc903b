-- Statements of the scoring hop, run in this order inside one transaction; each is named by the comment above it.
-- $now: the present. Only what was seen before it counts. $window: days until a merge counts as clean.

-- name: seeds
-- Whose judgement is taken as given: never an owner by own claim, only of watched repositories.
with wanted as (
  select w.repository_id, r.owner_id as contributor_id, 1 as precedence, 'owner' as role
    from watched_repositories w join repositories r using (repository_id) where r.owner_id is not null
  union all
  select repository_id, contributor_id, 2, 'push_holder'
    from push_holders semi join watched_repositories using (repository_id)
  union all
  select w.repository_id, m.contributor_id, 3, 'maintainer'
    from watched_repositories w join maintainers m on m.repository_id in (w.repository_id, 0)
  union all
  select 0, r.owner_id, 1, 'owner'
    from watched_repositories w join repositories r using (repository_id) where r.owner_id is not null
  union all
  select 0, contributor_id, 3, 'maintainer' from maintainers
)
insert into seeds
select repository_id, contributor_id, arg_min(role, precedence) from wanted group by repository_id, contributor_id;

-- name: labels
-- Settled pull requests of repositories that count: those of a site seed's or of an owner whom the site's seeds reach
-- with s >= .5. A merge that only its author recorded is no label; a closed one is known when it closed.
with counting as (
  select repository_id from repositories r
  where exists (from seeds s where s.repository_id = 0 and s.contributor_id = r.owner_id)
     or exists (from trust t where t.repository_id = 0 and t.contributor_id = r.owner_id and t.structural_trust >= .5)
), trouble as (
  select pull_uri, min(known_from) as known_from from pull_followups where known_from <= $now group by pull_uri
), settled as (
  select p.pull_uri, p.author_id, p.repository_id,
    p.state = 'merged' and t.pull_uri is null as clean,
    case when p.state = 'closed' then p.state_at
         when t.pull_uri is not null then t.known_from
         else coalesce(p.merged_at, p.state_at) + to_days($window) end as known_from
  from pull_requests p semi join counting using (repository_id) left join trouble t using (pull_uri)
  where p.state = 'closed' or p.state = 'merged' and p.merge_verified
)
insert into labels select * from settled where known_from <= $now;

-- name: features
with pairs as (
  select contributor_id, 0 as repository_id from contributors
  union select author_id, repository_id from pull_requests semi join watched_repositories using (repository_id)
  union select contributor_id, repository_id from trust
), record as (
  select author_id as contributor_id,
    count(*) filter (clean)::integer as clean, count(*) filter (not clean)::integer as not_clean
  from labels group by author_id
), here as (
  select author_id as contributor_id, repository_id,
    count(*) filter (state = 'merged' and merge_verified)::integer as merged_here,
    count(*) filter (state = 'closed' or state = 'merged' and merge_verified)::integer as settled_here,
    count(*) filter (state = 'merged' and merge_verified
                     and coalesce(merged_at, state_at) + to_days($window) > $now)::integer as waiting
  from pull_requests semi join watched_repositories using (repository_id) group by author_id, repository_id
), everywhere as (
  select contributor_id, 0 as repository_id, sum(merged_here)::integer as merged_here,
    sum(settled_here)::integer as settled_here, sum(waiting)::integer as waiting
  from here group by contributor_id
), counts as (from here union all by name from everywhere)
insert into features
select contributor_id, repository_id, coalesce(r.clean, 0), coalesce(r.not_clean, 0), coalesce(c.merged_here, 0),
  coalesce(c.settled_here, 0), coalesce(c.waiting, 0), coalesce(t.structural_trust, 0), coalesce(t.eigentrust, 0)
from pairs
left join record r using (contributor_id)
left join counts c using (contributor_id, repository_id)
left join trust t using (contributor_id, repository_id);
