"""One snapshot in; answers for pages and JSON out."""
