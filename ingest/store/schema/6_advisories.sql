-- Advisories on packages (OSV records) from imports and look-ups; withdrawn ones are removed.
create table advisories (
  advisory_id varchar primary key,    -- in the form of the issuing database: GHSA-…, PYSEC-…, MAL-…
  summary varchar not null,           -- one line, cut
  severity varchar,                   -- 'malware', 'critical', 'high', 'moderate', 'low'; null: unknown
  modified_at timestamp,
  learned_clock timestamp not null
);

-- Other names of an advisory.
create table advisory_aliases (
  advisory_id varchar not null,
  alias varchar not null
);

-- Bounds of the affected versions of a package: the events of a range, evaluated by OSV's rules (scoring/packages).
create table advisory_ranges (
  advisory_id varchar not null,
  ecosystem varchar not null,         -- in OSV's spelling
  name varchar not null,              -- the registry's name (ingest/lookups/osv.py)
  range_number integer not null,      -- number of the range within an advisory
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
