-- Stored features of the content of changes.

-- The words that a round adds, hashed, so that a copy of a known bad change is recognised (scoring/diff/similarity.py).
create table diff_vectors (
  pull_uri varchar not null,
  patch_ref varchar not null,         -- the round, as pull_requests.patch_ref names the newest
  known_bad boolean not null,         -- reverted, or marked as bad by somebody who may push there
  vector float[512] not null,         -- of length 1
  primary key (pull_uri, patch_ref)
);
