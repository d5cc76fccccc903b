-- Advisories on packages (OSV records), as an import or a look-up brought them; withdrawn ones are not kept.
create table advisories (
  advisory_id varchar primary key,    -- as the database that issued it writes it: GHSA-…, PYSEC-…, MAL-…
  summary varchar not null,           -- one line, cut
  severity varchar,                   -- 'malware', 'critical', 'high', 'moderate', 'low'; null: not said
  modified_at timestamp,
  learned_clock timestamp not null
);

-- Other names of the same advisory.
create table advisory_aliases (
  advisory_id varchar not null,
  alias varchar not null
);

-- What bounds the affected versions of a package: the events of a range, evaluated as OSV says (scoring/packages).
create table advisory_ranges (
  advisory_id varchar not null,
  ecosystem varchar not null,         -- as OSV spells it
  name varchar not null,              -- as the registry files it (ingest/lookups/osv.py)
  range_number integer not null,      -- tells the ranges of an advisory apart
  event varchar not null,             -- 'introduced', 'fixed', 'last_affected', 'limit'
  version varchar not null            -- '0' as introduced: before every version
);

-- Versions that an advisory names one by one.
create table advisory_versions (
  advisory_id varchar not null,
  ecosystem varchar not null,
  name varchar not null,
  versions varchar[] not null
);
