"""One file a page: validate, query, present, render."""
