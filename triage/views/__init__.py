"""One file a page: validate, ask, present, render."""
