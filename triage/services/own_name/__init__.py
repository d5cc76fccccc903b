"""Acts in a person's own name: records in their repository, merges and vouches."""
