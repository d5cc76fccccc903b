"""Write, check and restore backups."""
