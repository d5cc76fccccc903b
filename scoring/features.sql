-- What was known of each pull request at the moment of opening: a row for every case but those of bots, and for every
-- question (what is asked about and is no case yet). Reads the temporary tables `cases` (learning/cases.sql),
-- `questions` (the same columns, as far as they are known at opening), `trust_slices` and `slice_dates`
-- (learning/slices.py), and `comments`, `ci_runs`, `contributors` and `signals`.
--
-- `stream` and `rare` line up what happened. Their moments are microseconds, doubled: an opening stands on the even
-- number, whatever became known at that time on the odd one after it. So a window that ends with an opening and its
-- peers holds what was known before it, and nothing that came of it. Of a pull request nothing is known before it was
-- opened. Whatever is unmerged after 180 days counts as refused from then on, also where new rounds keep it awake: else
-- its author could put that off for ever.
-- `fade` doubles in 365 days, from 2020 on: a sum of it, divided by that of the moment, is a count of which a year
-- leaves half. Its exponent is bounded, so that no absurd time makes it infinite.
-- Rates lean on what is usual in the repository while there are few cases, and that on what is usual in 11 projects
-- (shared/data/pr_history.parquet): 65 % merged, 15 % patched, 4 % fixed, and e^3 hours to a merge. Those that a refusal
-- moves are known of everybody: a model may rate the unknown below the worst, and whoever abandons a change would rise.
-- A title of which nothing is known counts as a usual one of 40 characters: that it is missing tells the outcome.
with asked as (
  select *, rowid as place, 1::tinyint as happened from cases where not is_bot
  union all by name select *, -1 - rowid as place, 0::tinyint as happened from questions
), dated as (
  select *, 2 * epoch_us(opened_at) as opening,
    case when merged_at is not null then 2 * epoch_us(greatest(merged_at, opened_at)) + 1 end as merging,
    least(refused_at, case when opened_at + interval 180 day <= observed_until then opened_at + interval 180 day end)
      as out_at,
    case when out_at is not null then 2 * epoch_us(greatest(out_at, opened_at)) + 1 end as refusing
  from asked
), known as (
  select author_id, repository_id, opening, merging, refusing, least(merging, refusing) as settling,
    additions + deletions as lines, files_touched, reverted_at, patched_at, patched_fix_at, failed_at,
    checks_known and key not in (select pull_uri from ci_runs) as checks_told
  from dated where happened = 1
), stream as (
  select opening as moment, author_id, repository_id, place, happened as opened from dated
  union all by name
  select merging as moment, author_id, repository_id, 1::tinyint as merged, merging as merge_moment,
    coalesce(merging < refusing, true)::tinyint as settled, lines, files_touched as files,
    ln(1 + (merging - opening) / 7.2e9) as hours
  from known where merging is not null
  union all by name
  select refusing as moment, author_id, repository_id, 1::tinyint as settled
  from known where refusing <= coalesce(merging, refusing)
  union all by name
  select greatest(2 * epoch_us(patched_at) + 1, merging) as moment, author_id, repository_id, 1::tinyint as patched
  from known where patched_at is not null and merging is not null
  union all by name
  select greatest(2 * epoch_us(patched_fix_at) + 1, merging) as moment, author_id, repository_id, 1::tinyint as fixed
  from known where patched_fix_at is not null and merging is not null
), counted as (  -- zeros in place of nulls: sums over windows take a quarter less then
  select moment, author_id, repository_id, place, merge_moment, lines, files,
    coalesce(opened, 0)::double as opened, coalesce(merged, 0)::double as merged,
    coalesce(settled, 0)::double as settled, coalesce(patched, 0)::double as patched,
    coalesce(fixed, 0)::double as fixed, coalesce(hours, 0) as hours,
    pow(2e0, least(greatest(moment / 1.728e11 - 18262, -18262), 36524) / 365) as fade
  from stream
), here as (  -- the author in this repository
  select place, fade, sum(opened) over here as opened, sum(merged) over here as merges,
    sum(settled) over here as outcomes, sum(patched) over here as patched, sum(fixed) over here as fixed,
    sum(hours) over here as hours, sum(merged * fade) over here as merges_faded,
    sum(settled * fade) over here as outcomes_faded, last_value(merge_moment ignore nulls) over here as merge_moment
  from counted window here as (partition by author_id, repository_id order by moment)
  qualify place is not null
), person as (  -- the author everywhere; 30 and 365 days, doubled as well
  select place, sum(merged) over person as all_merges, sum(settled) over person as all_outcomes,
    sum(lines::double) over person as all_lines, sum(files::double) over person as all_files,
    last_value(merge_moment ignore nulls) over person as last_merge_moment,
    sum(opened) over (person range between 5184000000000 preceding and current row) as opened_in_month,
    sum(lines::double) over (person range between 63072000000000 preceding and current row) as lines_in_year
  from counted window person as (partition by author_id order by moment)
  qualify place is not null
), project as (  -- everybody in this repository
  select place,
    sum(merged * fade) over project / fade as project_merges_lately,
    sum(settled * fade) over project / fade as project_outcomes_lately,
    sum(patched * fade) over project / fade as project_patched_lately,
    sum(fixed * fade) over project / fade as project_fixed_lately,
    sum(hours * fade) over project / fade as project_hours_lately,
    sum(opened - settled) over project as project_open, sum(merged) over project as project_merges,
    last_value(merge_moment ignore nulls) over project as project_merge_moment
  from counted window project as (partition by repository_id order by moment)
  qualify place is not null
), usual as (
  select *, merges_faded / fade as merges_lately, outcomes_faded / fade as outcomes_lately,
    greatest(project_merges_lately - merges_lately, 0) as others_merged,
    greatest(project_outcomes_lately - outcomes_lately, 0) as others_settled,
    (others_merged + 3.25) / (others_settled + 5) as usual_merged,
    case when project_merges > 0
      then (project_patched_lately + 1.5) / (project_merges_lately + 10) end as usual_patched,
    case when project_merges > 0 then (project_fixed_lately + 0.4) / (project_merges_lately + 10) end as usual_fixed,
    case when project_merges > 0 then (project_hours_lately + 15) / (project_merges_lately + 5) end as usual_hours
  from here join person using (place) join project using (place)
), rare as (  -- of the author everywhere, and so seldom that no pull request carries it along
  select greatest(2 * epoch_us(reverted_at) + 1, merging) as moment, author_id, 1 as reverted
  from known where reverted_at is not null and merging is not null
  union all by name
  select settling as moment, author_id, 1 as checked,
    coalesce(2 * epoch_us(failed_at) >= settling, true)::integer as passed
  from known where checks_told and settling is not null
  union all by name
  select 2 * epoch_us(greatest(r.observed_at, c.opened_at)) + 1 as moment, c.author_id, 1 as checked,
    (r.state = 'passed')::integer as passed
  from ci_runs r join cases c on c.key = r.pull_uri where r.state in ('passed', 'failed')
  union all by name
  select 2 * epoch_us(greatest(m.seen_at, c.opened_at)) + 1 as moment, c.author_id, length(m.body) as said
  from comments m join cases c on c.key = m.subject_uri where m.author_id <> c.author_id
), rarely as (
  select author_id, moment, sum(reverted::double) over person as reverted, sum(checked::double) over person as checked,
    sum(passed::double) over person as passed, sum(said::double) over person as said,
    count(said) over person as comments
  from rare window person as (partition by author_id order by moment)
), noted as (
  select d.place, r.* exclude (author_id, moment)
  from (select place, author_id, opening from dated semi join rarely using (author_id)) d
  asof join rarely r on r.author_id = d.author_id and r.moment < d.opening
), signalled as (
  select subject, known_from,
    max(try_cast(value as double)) filter (source = 'bluesky' and key = 'followers') as followers,
    max(try_cast(value as double)) filter (source = 'bluesky' and key = 'follows') as follows,
    max(try_cast(value as timestamp)) filter (source = 'bluesky' and key = 'created_at') as bluesky_since,
    max(try_cast(value as double)) filter (source = 'plc' and key = 'handle_changes') as handle_changes,
    sum(try_cast(value as double)) filter (source = 'plc' and key in ('pds_moves', 'key_rotations', 'recoveries'))
      as account_changes
  from signals where source in ('bluesky', 'plc') group by subject, known_from
), told as (
  select c.contributor_id, s.known_from,
    last_value(followers ignore nulls) over told as followers,
    last_value(follows ignore nulls) over told as follows,
    last_value(bluesky_since ignore nulls) over told as bluesky_since,
    last_value(handle_changes ignore nulls) over told as handle_changes,
    last_value(account_changes ignore nulls) over told as account_changes
  from signalled s join contributors c on c.did = s.subject
  window told as (partition by s.subject order by s.known_from)
), signals_then as (
  select d.place, t.* exclude (contributor_id, known_from)
  from (select place, author_id, opened_at from dated semi join told on told.contributor_id = dated.author_id) d
  asof join told t on t.contributor_id = d.author_id and t.known_from < d.opened_at
), asking as (  -- trust from the seeds of the repository, or of the site where it has none of its own
  select place, author_id, opened_at,
    case when repository_id in (select repository_id from slice_dates) then repository_id else 0 end as seeds_of
  from dated where author_id > 0 and exists (from slice_dates)
), trusted as (
  select a.place, coalesce(t.structural_trust, 0) as structural_trust, coalesce(t.eigentrust, 0) as eigentrust,
    t.distance, coalesce(t.trusted_denouncers, 0) as denouncers
  from asking a asof join slice_dates d on d.repository_id = a.seeds_of and d.as_of < a.opened_at
  left join trust_slices t
    on t.repository_id = a.seeds_of and t.as_of = d.as_of and t.contributor_id = a.author_id
)
select u.key,
  t.structural_trust, t.eigentrust as eigentrust_score, t.distance::double as trust_distance,
  t.denouncers::double as denounce_count,
  all_merges as merged_pr_count, merges as merged_here, all_merges - merges as merged_elsewhere,
  outcomes - merges as refused_here, merges / nullif(project_merges, 0) as share_of_merges_here,
  (merges + 2 * usual_merged) / (outcomes + 2) as merge_rate_here,
  (merges_lately + 2 * usual_merged) / (outcomes_lately + 2) as recent_merge_rate_here,
  (all_merges - merges + 3 * usual_merged) / (all_outcomes - outcomes + 3) as merge_rate_elsewhere,
  (all_outcomes - all_merges + 0.7) / (all_outcomes + 2) as close_without_merge_ratio,
  coalesce(reverted, 0) / nullif(all_merges, 0) as revert_rate,
  (patched + 4 * usual_patched) / (merges + 4) as patched_rate_here,
  (fixed + 4 * usual_fixed) / (merges + 4) as fix_rate_here,
  exp((hours + 2 * usual_hours) / (merges + 2)) - 1 as hours_to_merge_here,
  passed / nullif(checked, 0) as ci_pass_rate,
  all_lines / nullif(all_merges, 0) as mean_diff_size, all_files / nullif(all_merges, 0) as mean_files_touched,
  case when all_merges > 0 then coalesce(lines_in_year, 0) end as churn,
  said / nullif(comments, 0) as mean_discussion_len,
  (opening - merge_moment) / 1.728e11 as days_since_merge_here,
  (opening - last_merge_moment) / 1.728e11 as days_since_merge,
  opened - happened - outcomes as open_here, opened_in_month - happened as opened_in_month,
  push_holder::double as push_holder,
  case when c.did_created_at <= u.opened_at then epoch(u.opened_at - c.did_created_at) / 86400 end as did_age_days,
  starts_with(c.did, 'did:plc:')::double as did_in_directory,
  s.handle_changes, s.account_changes, s.followers + s.follows as bsky_graph_degree,
  case when s.bluesky_since <= u.opened_at then epoch(u.opened_at - s.bluesky_since) / 86400 end as bsky_account_age,
  usual_merged as repository_merge_rate, usual_patched as repository_patched_rate, usual_fixed as repository_fix_rate,
  exp(usual_hours) - 1 as repository_hours_to_merge, coalesce(project_merges_lately, 0) as repository_pace,
  project_open - happened as repository_open,
  (opening - project_merge_moment) / 1.728e11 as repository_days_since_merge,
  u.additions::double + u.deletions as lines_changed,
  (u.additions::double + u.deletions) / nullif(u.files_touched, 0) as lines_per_file,
  u.additions / nullif(u.additions::double + u.deletions, 0) as share_added,
  (u.additions::double + u.deletions + 1) / (all_lines / nullif(all_merges, 0) + 1) as size_against_usual,
  u.additions::double as lines_added, u.deletions::double as lines_deleted, u.files_touched::double as files_touched,
  u.binary_files::double as binary_files, u.touches_tests::double as touches_tests, u.docs_only::double as docs_only,
  u.touches_sensitive::double as touches_sensitive,
  case when happened = 1 then coalesce(u.title_length, 40) end::double as title_length,
  case when happened = 1 then coalesce(list_contains(u.title_says, 'default'), false) end::double as title_is_default,
  case when happened = 1 then coalesce(list_contains(u.title_says, 'fix'), false) end::double as title_tells_fix,
  case when happened = 1 then coalesce(list_contains(u.title_says, 'docs'), false) end::double as title_tells_docs,
  case when happened = 1 then coalesce(list_contains(u.title_says, 'new'), false) end::double as title_tells_new,
  case when happened = 1 then coalesce(list_contains(u.title_says, 'code'), false) end::double as title_names_code
from dated u join usual using (place)
left join noted using (place)
left join trusted t using (place)
left join signals_then s using (place)
left join contributors c on c.contributor_id = u.author_id
order by place
