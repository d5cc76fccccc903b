"""Settled scored cases in; a threshold with its proof out."""
