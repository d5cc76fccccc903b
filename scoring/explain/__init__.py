"""Reason codes in; sentences out."""
