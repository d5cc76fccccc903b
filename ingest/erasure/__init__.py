"""Remove one person from every table and file."""
