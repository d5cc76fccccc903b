"""Where a text says who wrote it: patterns, files, known strings, and the placeholders that stand for them."""
