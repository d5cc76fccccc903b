"""Edges and seeds in; trust, distance, paths and dominators out."""
