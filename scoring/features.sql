-- What was known of each pull request at the moment of opening: a row for every case but those of bots, and for every
-- question (what is asked about and is no case yet). Reads the temporary tables `cases` (learning/cases.sql), `questions`
-- (the same columns, as far as they are known at opening), `trust_slices` and `slice_dates` (learning/slices.py), and
-- `comments`, `ci_runs`, `pull_requests`, `contributors` and `signals`.
--
-- `stream` lines up what happened. Its moments are microseconds, doubled: an opening stands on the even number, whatever
-- became known at that time on the odd one after it. So a window up to an opening and its peers holds what was known
-- before it and nothing that came of it; of a pull request nothing is known before it was opened.
-- Whoever is unmerged after 180 days counts as refused from then on, also where new rounds keep it awake: else its author
-- could put that off for ever. `fade` doubles in a year: a sum of it, divided by that of the moment, is a count of which
-- a year leaves half. Its exponent is bounded, so that no absurd time makes it infinite.
-- Rates lean on what is usual in the repository while there are few cases, and that on what is usual at all.
with asked as (
  select *, 1::tinyint as happened from cases where not is_bot
  union all by name select *, 0::tinyint as happened from questions
), dated as (
  select *, 2 * epoch_us(opened_at) as opening,
    case when merged_at is not null then 2 * epoch_us(greatest(merged_at, opened_at)) + 1 end as merging,
    least(refused_at, case when opened_at + interval 180 day <= observed_until then opened_at + interval 180 day end)
      as out_at,
    case when out_at is not null then 2 * epoch_us(greatest(out_at, opened_at)) + 1 end as refusing
  from asked
), known as (
  select author_id, repository_id, merging, refusing, least(merging, refusing) as settling, opening,
    additions + deletions as lines, files_touched, reverted_at, patched_at, patched_fix_at, failed_at,
    checks_known and not exists (from ci_runs where pull_uri = key) as checks_told
  from dated where happened = 1
), stream as (
  select opening as moment, opening, happened, author_id, repository_id, happened as opened, key, opened_at, push_holder, additions,
    deletions, files_touched, binary_files, touches_tests, docs_only, touches_sensitive, title_length
  from dated
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
  union all by name
  select greatest(2 * epoch_us(reverted_at) + 1, merging) as moment, author_id, repository_id, 1::tinyint as reverted
  from known where reverted_at is not null and merging is not null
  union all by name
  select settling as moment, author_id, repository_id, 1::tinyint as checked,
    coalesce(2 * epoch_us(failed_at) >= settling, true)::tinyint as passed
  from known where checks_told and settling is not null
  union all by name
  select 2 * epoch_us(greatest(r.observed_at, c.opened_at)) + 1 as moment, c.author_id, c.repository_id,
    1::tinyint as checked, (r.state = 'passed')::tinyint as passed
  from ci_runs r join cases c on c.key = r.pull_uri where r.state in ('passed', 'failed')
  union all by name
  select 2 * epoch_us(greatest(m.seen_at, c.opened_at)) + 1 as moment, c.author_id, c.repository_id,
    length(m.body) as said
  from comments m join cases c on c.key = m.subject_uri where m.author_id <> c.author_id
), fading as (
  select *, pow(2e0, least(greatest(moment / 1.728e11 - 18262, -18262), 36524) / 365) as fade from stream
), counted as (
  select *,
    sum(opened::double) over here as h_opened, sum(merged::double) over here as h_merged,
    sum(settled::double) over here as h_settled, sum(patched::double) over here as h_patched,
    sum(fixed::double) over here as h_fixed, sum(hours) over here as h_hours,
    sum(merged * fade) over here as h_merged_lately, sum(settled * fade) over here as h_settled_lately,
    max(merge_moment) over here as h_merge_moment,
    sum(merged::double) over person as a_merged, sum(settled::double) over person as a_settled,
    sum(reverted::double) over person as a_reverted, sum(lines::double) over person as a_lines,
    sum(files::double) over person as a_files, sum(checked::double) over person as a_checked,
    sum(passed::double) over person as a_passed, sum(said::double) over person as a_said,
    count(said) over person as a_comments, max(merge_moment) over person as a_merge_moment,
    sum(opened::double) over (person range between 5184000000000 preceding and current row) as a_opened_in_month,
    sum(lines::double) over (person range between 63072000000000 preceding and current row) as a_lines_in_year,
    sum(opened * fade) over project as r_opened_lately, sum(merged * fade) over project as r_merged_lately,
    sum(settled * fade) over project as r_settled_lately, sum(patched * fade) over project as r_patched_lately,
    sum(fixed * fade) over project as r_fixed_lately, sum(hours * fade) over project as r_hours_lately,
    sum(opened::double) over project as r_opened, sum(merged::double) over project as r_merged,
    sum(settled::double) over project as r_settled, max(merge_moment) over project as r_merge_moment
  from fading
  window here as (partition by author_id, repository_id order by moment),
    person as (partition by author_id order by moment),
    project as (partition by repository_id order by moment)
), usual as (
  select *, happened::integer as itself, coalesce(h_merged, 0) as merges, coalesce(h_settled, 0) as outcomes,
    coalesce(a_merged, 0) as all_merges, coalesce(a_settled, 0) as all_outcomes,
    coalesce(h_merged_lately, 0) / fade as merges_lately, coalesce(h_settled_lately, 0) / fade as outcomes_lately,
    greatest(r_merged_lately / fade - merges_lately, 0) as others_merged,
    greatest(r_settled_lately / fade - outcomes_lately, 0) as others_settled,
    r_merged_lately / fade as project_merges,
    case when r_settled > outcomes then (others_merged + 3.25) / (others_settled + 5) end as usual_merged,
    case when r_merged > 0 then (coalesce(r_patched_lately, 0) / fade + 1.5) / (project_merges + 10) end as usual_patched,
    case when r_merged > 0 then (coalesce(r_fixed_lately, 0) / fade + 0.4) / (project_merges + 10) end as usual_fixed,
    case when r_merged > 0 then (r_hours_lately / fade + 15) / (project_merges + 5) end as usual_hours
  from counted where key is not null
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
  select c.contributor_id, s.known_from, last_value(followers ignore nulls) over told as followers,
    last_value(follows ignore nulls) over told as follows,
    last_value(bluesky_since ignore nulls) over told as bluesky_since,
    last_value(handle_changes ignore nulls) over told as handle_changes,
    last_value(account_changes ignore nulls) over told as account_changes
  from signalled s join contributors c on c.did = s.subject
  window told as (partition by s.subject order by s.known_from)
), dated_slices as (
  select u.*, coalesce(d.as_of, z.as_of) as slice_at, case when d.as_of is null then 0 else u.repository_id end as seeds_of
  from usual u
  asof left join slice_dates d on d.repository_id = u.repository_id and d.as_of < u.opened_at
  asof left join (select as_of from slice_dates where repository_id = 0) z on z.as_of < u.opened_at
)
select u.key,
  t.structural_trust, t.eigentrust as eigentrust_score, t.distance::double as trust_distance,
  case when u.author_id > 0 and u.slice_at is not null then coalesce(t.trusted_denouncers, 0)::double end as denounce_count,
  all_merges as merged_pr_count, merges as merged_here, all_merges - merges as merged_elsewhere,
  outcomes - merges as refused_here, merges / nullif(r_merged, 0) as share_of_merges_here,
  case when outcomes > 0 or usual_merged is not null
    then (merges + 2 * coalesce(usual_merged, 0.65)) / (outcomes + 2) end as merge_rate_here,
  case when outcomes > 0 or usual_merged is not null
    then (merges_lately + 2 * coalesce(usual_merged, 0.65)) / (outcomes_lately + 2) end as recent_merge_rate_here,
  case when all_outcomes > outcomes or usual_merged is not null
    then (all_merges - merges + 3 * coalesce(usual_merged, 0.65)) / (all_outcomes - outcomes + 3) end
    as merge_rate_elsewhere,
  1 - all_merges / nullif(all_outcomes, 0) as close_without_merge_ratio,
  coalesce(a_reverted, 0) / nullif(all_merges, 0) as revert_rate,
  (coalesce(h_patched, 0) + 4 * usual_patched) / (merges + 4) as patched_rate_here,
  (coalesce(h_fixed, 0) + 4 * usual_fixed) / (merges + 4) as fix_rate_here,
  exp((coalesce(h_hours, 0) + 2 * usual_hours) / (merges + 2)) - 1 as hours_to_merge_here,
  a_passed / nullif(a_checked, 0) as ci_pass_rate,
  a_lines / nullif(all_merges, 0) as mean_diff_size, a_files / nullif(all_merges, 0) as mean_files_touched,
  case when all_merges > 0 then coalesce(a_lines_in_year, 0) end as churn,
  a_said / nullif(a_comments, 0) as mean_discussion_len,
  (opening - h_merge_moment) / 1.728e11 as days_since_merge_here, (opening - a_merge_moment) / 1.728e11 as days_since_merge,
  coalesce(h_opened, 0) - itself - outcomes as open_here, a_opened_in_month - itself as opened_in_month,
  push_holder::double as push_holder,
  case when c.did_created_at <= u.opened_at then epoch(u.opened_at - c.did_created_at) / 86400 end as did_age_days,
  starts_with(c.did, 'did:plc:')::double as did_in_directory,
  s.handle_changes, s.account_changes, s.followers + s.follows as bsky_graph_degree,
  case when s.bluesky_since <= u.opened_at then epoch(u.opened_at - s.bluesky_since) / 86400 end as bsky_account_age,
  usual_merged as repository_merge_rate, usual_patched as repository_patched_rate, usual_fixed as repository_fix_rate,
  exp(usual_hours) - 1 as repository_hours_to_merge, r_opened_lately / fade - itself as repository_pace,
  r_opened - itself - coalesce(r_settled, 0) as repository_open,
  (opening - r_merge_moment) / 1.728e11 as repository_days_since_merge,
  u.additions::double as lines_added, u.deletions::double as lines_deleted, u.files_touched::double as files_touched,
  u.binary_files::double as binary_files, u.touches_tests::double as touches_tests, u.docs_only::double as docs_only,
  u.touches_sensitive::double as touches_sensitive, u.title_length::double as title_length
from dated_slices u
left join trust_slices t on t.repository_id = u.seeds_of and t.as_of = u.slice_at and t.contributor_id = u.author_id
left join contributors c on c.contributor_id = u.author_id
asof left join told s on s.contributor_id = u.author_id and s.known_from < u.opened_at
order by u.opened_at, u.key
