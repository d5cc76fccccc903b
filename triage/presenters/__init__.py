"""Turn answers of queries into view models and words."""
