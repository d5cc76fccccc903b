"""Finds the places in a text that name its author, and puts placeholders there: patterns, files, known strings."""
