"""Every look-up on the network, run by one engine."""
