-- Statements of the scoring hop, in the order in which they run; each is named by the comment above it and gives the
-- rows of the table of that name, in the order of its columns. Trust is computed after `seeds`; the other tables follow
-- in one transaction.
-- $now: the present. Only what was seen before it counts. $window: days until a merge counts as clean, where a
-- repository has no number of its own.

-- name: seeds
-- Whose judgement is taken as given: never an owner by own claim, only of watched repositories. Whom a repository's
-- maintainers left out is no seed there, and stays one for the site and for every other repository.
with wanted as (
  select w.repository_id, r.owner_id as contributor_id, 1 as precedence, 'owner' as role
    from watched_repositories w join repositories r using (repository_id) where r.owner_id is not null
  union all
  select repository_id, contributor_id, 2, 'push_holder'
    from push_holders semi join watched_repositories using (repository_id) where held_until is null
  union all
  select w.repository_id, m.contributor_id, 3, 'maintainer'
    from watched_repositories w join maintainers m on m.repository_id in (w.repository_id, 0)
  union all
  select 0, r.owner_id, 1, 'owner'
    from watched_repositories w join repositories r using (repository_id) where r.owner_id is not null
  union all
  select 0, contributor_id, 3, 'maintainer' from maintainers
  union all
  select repository_id, contributor_id, 3, 'maintainer'
    from seed_choices semi join watched_repositories using (repository_id) where choice = 'added'
)
select repository_id, contributor_id, arg_min(role, precedence)
from wanted anti join (from seed_choices where choice = 'removed') using (repository_id, contributor_id)
group by repository_id, contributor_id;

-- name: outcomes
-- What became of each pull request, and from when that is known: in the word of the last push-holder who is not its
-- author, or because the patch landed on the target branch (`landings.proven`) while its author might not push there.
-- Nothing that the author does counts, neither closing nor reopening nor deleting the record: what a person moves alone
-- opens no lane (docs/threat-model.md, rule 9). A landing stands against `closed`, which then only tidies up, and not
-- against a later `open` of a push-holder.
-- A merge is clean when its lines stayed quiet for the window; before that it waits. The window begins when the word or
-- the landing was seen, whichever came first: the time that a record claims could end it at once. Of a back-written word
-- nobody knows when the merge was: its window too begins when it was seen, later than the truth and never before it.
create or replace temp table outcomes as
with told as (
  select pull_uri, arg_max({'status': status, 'seen_at': seen_at}, (seen_at, event_seq)) as word
  from statuses
  where authority = 'push_holder' and status in ('open', 'closed', 'merged') and deleted_at is null and seen_at <= $now
  group by pull_uri
), found as (
  select pull_uri, min(landed_at) as landed_at from landings where proven and landed_at <= $now group by pull_uri
), landed as (
  select f.* from found f join pull_requests p using (pull_uri) anti join push_holders h
    on h.repository_id = p.repository_id and h.contributor_id = p.author_id
    and coalesce(h.held_from <= f.landed_at, true) and coalesce(f.landed_at < h.held_until, true)
), settled as (
  select pull_uri, coalesce(t.word.status = 'merged', false) or l.landed_at is not null
      and not coalesce(t.word.status = 'open' and t.word.seen_at > l.landed_at, false) as merged,
    case when merged then least(l.landed_at, case when t.word.status = 'merged' then t.word.seen_at end)
         when t.word.status = 'closed' then t.word.seen_at end as settled_at
  from told t full join landed l using (pull_uri)
), trouble as (
  select pull_uri, min(f.known_from) as known_from from pull_followups f join settled s using (pull_uri)
    join pull_requests p using (pull_uri) left join repository_settings x using (repository_id)
  where f.known_from <= $now and f.happened_at <= s.settled_at + to_days(coalesce(x.window_days, $window))
  group by pull_uri
)
select p.pull_uri, p.author_id, p.repository_id, s.merged, s.settled_at, s.merged and trouble.pull_uri is null as clean,
  case when not s.merged then s.settled_at
       else greatest(coalesce(trouble.known_from, s.settled_at + to_days(coalesce(x.window_days, $window))),
                     s.settled_at) end as known_from
from pull_requests p join settled s using (pull_uri) left join trouble using (pull_uri)
left join repository_settings x using (repository_id)
where s.settled_at is not null;

-- name: marks
-- A person's mark outranks what was mined, and both are kept. Whoever marks maintains the repository by a role here or
-- may push to it; an author's word about their own change is none, and whose role was taken back has none either. What
-- was not merged has no outcome, whatever an older version let people mark.
with standing as (
  select m.pull_uri, p.author_id, p.repository_id, m.actor_id, m.outcome, m.made_at, m.known_from
  from maintainer_actions m join pull_requests p using (pull_uri)
  where m.kind = 'outcome' and p.state = 'merged' and m.known_from <= $now and m.actor_id <> p.author_id and (
    exists (from maintainers h where h.contributor_id = m.actor_id and h.repository_id in (p.repository_id, 0))
    or exists (from own_people h where h.contributor_id = m.actor_id and h.repository_id = p.repository_id))
  qualify row_number() over (partition by m.pull_uri order by m.made_at desc, m.action_key desc) = 1
), mined as (
  select pull_uri, clean, known_from from outcomes where known_from <= $now
)
select s.pull_uri, s.author_id, s.repository_id, s.actor_id, s.outcome, s.outcome = 'clean', s.made_at, s.known_from,
  mined.clean, mined.known_from
from standing s left join mined using (pull_uri);

-- name: counting
-- Repositories that count: those of a site seed, or of an owner for whom a site seed vouches in a record of their own and
-- whom the site's seeds reach with s >= .5. Without the seed's own vouch, somebody whom two seeds trust could give a
-- puppet of theirs s = .67 and have it merge whatever they like (docs/threat-model.md, rules 3 and 9).
create or replace temp table counting as
select repository_id from repositories r
where exists (from seeds s where s.repository_id = 0 and s.contributor_id = r.owner_id)
   or exists (from trust t where t.repository_id = 0 and t.contributor_id = r.owner_id
     and t.distance = 1 and t.structural_trust >= .5)
   and exists (from vouches v join seeds s on s.contributor_id = v.voucher_id
     where s.repository_id = 0 and v.subject_id = r.owner_id and v.kind = 'vouch' and v.seen_at <= $now
     and (v.superseded_at is null or v.superseded_at > $now));

-- name: labels
-- Outcomes known by now in repositories that count.
-- Where a person marked the outcome, that counts, from when it was known; a mark that says the same as what was mined
-- before it does not make it known later.
select pull_uri, author_id, repository_id, clean, known_from
from outcomes anti join marks using (pull_uri) semi join counting using (repository_id) where known_from <= $now
union all
select pull_uri, author_id, repository_id, clean,
  case when clean = mined_clean then least(known_from, mined_from) else known_from end
from marks semi join counting using (repository_id);

-- name: features
-- Everyone at the site, and in each watched repository those who offered something there: 40 repositories that reach
-- 20,000 people would else be 800,000 rows a pass. Of the others `read.score` judges who is asked for. Who is hidden has
-- none, and so no score, no decision and no place in queue and leaderboard.
-- $late_people, $late_repositories: pairs whose trust the next pass computes; until then they have no features either.
-- An imported history counts in the record of whom the operator tied to it, by the same rule as here. What its author
-- might have merged alone does not.
with everybody as (
  select contributor_id, 0 as repository_id from contributors
  union select author_id, repository_id from pull_requests semi join watched_repositories using (repository_id)
), late as (
  select unnest($late_people::integer[]) as contributor_id, unnest($late_repositories::integer[]) as repository_id
), pairs as (
  select * from everybody anti join hidden_people using (contributor_id)
  anti join late using (contributor_id, repository_id)
), imported as (
  select author_id::integer as contributor_id, merged_at is not null and troubled_at is null as clean
  from (
    select *, case when merged_at <= $now then merged_at + to_days($window) end as quiet_at,
      least(case when reverted_at <= quiet_at then reverted_at end,
        case when patched_at <= quiet_at then patched_at end, case when merged_at is null then refused_at end) as bad_at,
      case when bad_at <= $now then bad_at end as troubled_at
    from imported_pulls where author_id > 0 and usable and not push_holder and not is_bot
  ) where troubled_at is not null or quiet_at <= least($now, observed_until)
), record as (
  select contributor_id,
    count(*) filter (clean)::integer as clean, count(*) filter (not clean)::integer as not_clean
  from (select author_id as contributor_id, clean from labels union all from imported) group by contributor_id
), here as (
  select author_id as contributor_id, repository_id,
    count(*) filter (merged)::integer as merged_here, count(*)::integer as settled_here,
    count(*) filter (known_from > $now and pull_uri not in (select pull_uri from marks))::integer as waiting
  from outcomes semi join watched_repositories using (repository_id) group by author_id, repository_id
), everywhere as (
  select contributor_id, 0 as repository_id, sum(merged_here)::integer as merged_here,
    sum(settled_here)::integer as settled_here, sum(waiting)::integer as waiting
  from here group by contributor_id
), counts as (from here union all by name from everywhere)
select contributor_id, repository_id, coalesce(r.clean, 0), coalesce(r.not_clean, 0), coalesce(c.merged_here, 0),
  coalesce(c.settled_here, 0), coalesce(c.waiting, 0), coalesce(t.structural_trust, 0), coalesce(site.eigentrust, 0),
  coalesce(t.trusted_denouncers, 0)
from pairs
left join record r using (contributor_id)
left join counts c using (contributor_id, repository_id)
left join trust t using (contributor_id, repository_id)
left join trust site on site.contributor_id = pairs.contributor_id and site.repository_id = 0;
