"""Values that an operator and a repository may set, checked and frozen."""
