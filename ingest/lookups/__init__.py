"""Everything that is asked of the network, by one engine."""
