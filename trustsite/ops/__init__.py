"""Monitor a site: the worker's figures for Prometheus, traces of Claude's calls, a dashboard and alerts."""
