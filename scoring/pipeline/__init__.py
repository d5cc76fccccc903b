"""One scoring pass over the store: find what changed, judge it, write rows."""
