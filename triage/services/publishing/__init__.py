"""Public records and labels of this site: which change, who writes them, how a reader proves them."""
