"""Messages that leave the site: work for the worker, webhooks of other programs, pushes to browsers."""
