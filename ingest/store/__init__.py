"""The one DuckDB file: transactions, contributor numbers, tombstones, snapshots."""
