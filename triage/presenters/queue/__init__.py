"""View models and words of the inbox: rows, their reasons, what was done on each, and how fresh they are."""
