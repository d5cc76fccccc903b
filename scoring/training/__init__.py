"""Fits, promotes and backtests models; nothing that serves imports it."""
