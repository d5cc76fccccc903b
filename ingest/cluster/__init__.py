"""Batch jobs on an engine that speaks Spark Connect: one folder a job, results as Parquet files."""
