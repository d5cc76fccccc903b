"""Findings and, where the cost gate asks for it, a model; the risk only rises."""
