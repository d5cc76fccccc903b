-- What was known of each pull request at the moment of opening: a row for every case but those of bots, and for every
-- question (what is asked about and is no case yet). Reads the temporary tables `cases` (learning/cases.sql),
-- `questions` (the same columns, as far as they are known at opening), `trust_slices` and `slice_dates`
-- (learning/slices.py), and `comments`, `ci_runs`, `contributors` and `signals`.
--
-- `stream` and `rare` line up what happened. Their moments are microseconds, doubled: an opening stands on the even
-- number, whatever became known at that time on the odd one after it. So what stands before an opening and its peers
-- holds what was known before it, and nothing that came of it. Of a pull request nothing is known before it was opened.
-- Whatever is unmerged after 180 days counts as refused from then on, also where new rounds keep it awake: else its
-- author could put that off for ever.
-- Of what is opened at one microsecond each counts all the others: there they are counted on the odd number before.
-- Unordered windows run over the sorted rows as they come, in one pass, and a sum over a part of them (one author, one
-- repository) is what a running total has gained since that part began. It begins with an opening, so that `own` is all
-- that its first row adds. Totals are whole numbers, hence exact: differences of floating ones would lose 8 digits, and
-- what others do later would change the last. Such a sum takes .06 s for 2,000,000 rows, and one over a partitioned
-- window .1 to .4; a count .01.
-- `fade` doubles in 365 days, from 2^40 in 2000 on: a sum of it, divided by that of the moment, is a count of which a
-- year leaves half. Its exponent is bounded (to 1990 and 2053), so that with 16,000,000 events of 32 log hours no total
-- leaves 127 bits. Log hours are counted in units of 1e-12.
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
), shared as (
  select opening from dated group by opening having count(*) > 1
), stream as (
  select opening as moment, author_id, repository_id, place, happened = 1 and s.opening is null as opened,
    happened as own
  from dated left join shared s using (opening)
  union all by name
  select opening - 1 as moment, author_id, repository_id, true as opened, 1::tinyint as own
  from dated semi join shared using (opening) where happened = 1
  union all by name
  select merging as moment, author_id, repository_id, true as merged, coalesce(merging < refusing, true) as settled,
    lines, files_touched as files, ln(1 + (merging - opening) / 7.2e9) as hours
  from known where merging is not null
  union all by name
  select refusing as moment, author_id, repository_id, true as settled
  from known where refusing <= coalesce(merging, refusing)
  union all by name
  select greatest(2 * epoch_us(patched_at) + 1, merging) as moment, author_id, repository_id, true as patched
  from known where patched_at is not null and merging is not null
  union all by name
  select greatest(2 * epoch_us(patched_fix_at) + 1, merging) as moment, author_id, repository_id, true as fixed
  from known where patched_fix_at is not null and merging is not null
), weighed as (
  select *, pow(2e0, least(greatest(moment / 1.728e11 / 365 + 10, 30), 94)) as fade from stream
), here_so_far as (  -- the author in this repository
  select place, fade, last_value(case when merged then moment end ignore nulls) over so_far as merge_moment,
    lag(author_id) over () is distinct from author_id or lag(repository_id) over () is distinct from repository_id
      as begins,
    count(*) filter (opened) over so_far - own as opened, count(*) filter (merged) over so_far as merges,
    count(*) filter (settled) over so_far as outcomes, count(*) filter (patched) over so_far as patched,
    count(*) filter (fixed) over so_far as fixed,
    coalesce(sum((1e12 * hours)::bigint) over so_far, 0) as hours,
    coalesce(sum(fade::hugeint) filter (merged) over so_far, 0) as merges_faded,
    coalesce(sum(fade::hugeint) filter (settled) over so_far, 0) as outcomes_faded
  from (from weighed order by author_id, repository_id, moment) window so_far as (rows unbounded preceding)
), here as (
  select place, fade, merge_moment,
    (columns(* exclude (place, fade, merge_moment, begins)) - last_value(
      case when begins then columns(* exclude (place, fade, merge_moment, begins)) end ignore nulls) over so_far)::double
  from here_so_far window so_far as (rows unbounded preceding) qualify place is not null
), person_stream as (  -- with what leaves the last 30 and 365 days, doubled as well
  select author_id, moment, place, opened, own, merged, settled, lines, files
  from stream where own is not null or settled or merged
  union all by name
  select author_id, opening + 5184000000001 as moment, true as left_month from dated where happened = 1
  union all by name
  select author_id, merging + 63072000000000 as moment, -lines as lines from known where merging is not null
), person_so_far as (  -- the author everywhere
  select place, last_value(case when merged then moment end ignore nulls) over so_far as last_merge_moment,
    lag(author_id) over () is distinct from author_id as begins,
    count(*) filter (merged) over so_far as all_merges, count(*) filter (settled) over so_far as all_outcomes,
    coalesce(sum(lines) filter (merged) over so_far, 0) as all_lines, coalesce(sum(files) over so_far, 0) as all_files,
    count(*) filter (opened) over so_far - count(*) filter (left_month) over so_far - own as opened_in_month,
    coalesce(sum(lines) over so_far, 0) as lines_in_year
  from (from person_stream order by author_id, moment) window so_far as (rows unbounded preceding)
), person as (
  select place, last_merge_moment,
    (columns(* exclude (place, last_merge_moment, begins)) - last_value(
      case when begins then columns(* exclude (place, last_merge_moment, begins)) end ignore nulls) over so_far)::double
  from person_so_far window so_far as (rows unbounded preceding) qualify place is not null
), project_so_far as (  -- everybody in this repository
  select place, last_value(case when merged then moment end ignore nulls) over so_far as project_merge_moment,
    lag(repository_id) over () is distinct from repository_id as begins,
    count(*) filter (opened) over so_far - count(*) filter (settled) over so_far - own as project_open,
    count(*) filter (merged) over so_far as project_merges,
    coalesce(sum(fade::hugeint) filter (merged) over so_far, 0) as project_merges_faded,
    coalesce(sum(fade::hugeint) filter (settled) over so_far, 0) as project_outcomes_faded,
    coalesce(sum(fade::hugeint) filter (patched) over so_far, 0) as project_patched_faded,
    coalesce(sum(fade::hugeint) filter (fixed) over so_far, 0) as project_fixed_faded,
    coalesce(sum((hours * fade)::hugeint) over so_far, 0) as project_hours_faded
  from (from weighed order by repository_id, moment) window so_far as (rows unbounded preceding)
), project as (
  select place, project_merge_moment,
    (columns(* exclude (place, project_merge_moment, begins)) - last_value(
      case when begins then columns(* exclude (place, project_merge_moment, begins)) end ignore nulls) over so_far)::double
  from project_so_far window so_far as (rows unbounded preceding) qualify place is not null
), usual as (
  select *, merges_faded / fade as merges_lately, outcomes_faded / fade as outcomes_lately,
    project_merges_faded / fade as project_merges_lately, project_outcomes_faded / fade as project_outcomes_lately,
    greatest(project_merges_lately - merges_lately, 0) as others_merged,
    greatest(project_outcomes_lately - outcomes_lately, 0) as others_settled,
    (others_merged + 3.25) / (others_settled + 5) as usual_merged,
    case when project_merges > 0
      then (project_patched_faded / fade + 1.5) / (project_merges_lately + 10) end as usual_patched,
    case when project_merges > 0
      then (project_fixed_faded / fade + 0.4) / (project_merges_lately + 10) end as usual_fixed,
    case when project_merges > 0 then (project_hours_faded / fade + 15) / (project_merges_lately + 5) end as usual_hours
  from dated left join here using (place) left join person using (place) left join project using (place)
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
  select a.place, coalesce(t.structural_trust, 0) as structural_trust, coalesce(site.eigentrust, 0) as eigentrust,
    t.distance, coalesce(t.trusted_denouncers, 0) as denouncers
  from asking a asof join slice_dates d on d.repository_id = a.seeds_of and d.as_of < a.opened_at
  left join trust_slices t
    on t.repository_id = a.seeds_of and t.as_of = d.as_of and t.contributor_id = a.author_id
  left join trust_slices site  -- EigenTrust is one walk, of the site
    on site.repository_id = 0 and site.as_of = d.as_of and site.contributor_id = a.author_id
)
select u.key, place,
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
  exp((hours / 1e12 + 2 * usual_hours) / (merges + 2)) - 1 as hours_to_merge_here,
  passed / nullif(checked, 0) as ci_pass_rate,
  all_lines / nullif(all_merges, 0) as mean_diff_size, all_files / nullif(all_merges, 0) as mean_files_touched,
  case when all_merges > 0 then lines_in_year end as churn,
  said / nullif(comments, 0) as mean_discussion_len,
  case when merges > 0 then (opening - merge_moment) / 1.728e11 end as days_since_merge_here,
  case when all_merges > 0 then (opening - last_merge_moment) / 1.728e11 end as days_since_merge,
  opened - outcomes as open_here, opened_in_month,
  push_holder::double as push_holder,
  case when c.did_created_at <= u.opened_at then epoch(u.opened_at - c.did_created_at) / 86400 end as did_age_days,
  starts_with(c.did, 'did:plc:')::double as did_in_directory,
  s.handle_changes, s.account_changes, s.followers + s.follows as bsky_graph_degree,
  case when s.bluesky_since <= u.opened_at then epoch(u.opened_at - s.bluesky_since) / 86400 end as bsky_account_age,
  usual_merged as repository_merge_rate, usual_patched as repository_patched_rate, usual_fixed as repository_fix_rate,
  exp(usual_hours) - 1 as repository_hours_to_merge, project_merges_lately as repository_pace,
  project_open as repository_open,
  case when project_merges > 0 then (opening - project_merge_moment) / 1.728e11 end as repository_days_since_merge,
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
from usual u
left join noted using (place)
left join trusted t using (place)
left join signals_then s using (place)
left join contributors c on c.contributor_id = u.author_id
