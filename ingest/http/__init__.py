"""The guarded fetcher: addresses pinned, bounded in size and time."""
