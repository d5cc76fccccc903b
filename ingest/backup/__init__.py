"""Writes, checks and restores backups."""
