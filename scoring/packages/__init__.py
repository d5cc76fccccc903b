"""Dependencies as manifests and lock files name them: read from fragments, compared, matched with advisories."""
