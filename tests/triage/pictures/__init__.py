"""Pictures of every page, to be looked at: `make screenshots` takes them, no run of the tests does."""
