"""Answers of queries in; view models and words out."""
