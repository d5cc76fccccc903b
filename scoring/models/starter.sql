-- What the starter model weighs, of each change in $keys as of its opening: a row for every one that is a case. Reads
-- the temporary table `cases` (learning/cases.sql). The columns mean what those of features.sql do, and a test compares
-- them: counted are the author's own earlier pull requests in the repository, by what was known before the opening.
-- That query needs 170 ms of CPU for a store of three pull requests, most of it to be planned, and this one 8.
with ended as (
  select author_id, repository_id, opened_at,
    case when merged_at is not null then greatest(merged_at, opened_at) end as merging,
    least(refused_at, case when opened_at + interval 180 day <= observed_until then opened_at + interval 180 day end)
      as out_at,
    least(merging, case when out_at is not null then greatest(out_at, opened_at) end) as settling
  from cases where not is_bot
), asked as (
  from cases semi join (select unnest($keys::varchar[]) as key) using (key) where not is_bot
), counted as (
  select a.key, count(*) filter (e.opened_at <= a.opened_at) - 1 as opened,
    count(*) filter (e.merging < a.opened_at) as merges, count(*) filter (e.settling < a.opened_at) as outcomes
  from asked a join ended e using (author_id, repository_id) group by a.key
)
select key, merges::double as merged_here, (outcomes - merges)::double as refused_here,
  (opened - outcomes)::double as open_here,
  sent_additions::double + sent_deletions as lines_changed, sent_deletions::double as lines_deleted,
  sent_files::double as files_touched, sent_additions / nullif(sent_additions::double + sent_deletions, 0) as share_added,
  sent_tests::double as touches_tests, sent_docs::double as docs_only, sent_sensitive::double as touches_sensitive
from asked join counted using (key) order by opened_at, key
