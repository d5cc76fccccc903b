"""DIDs, TIDs, identities and signed records of the AT Protocol."""
