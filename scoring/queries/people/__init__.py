"""Answers about one person: their judgements, trust and record, and everything stored about them."""
