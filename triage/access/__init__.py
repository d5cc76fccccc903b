"""Who may read and act: sign-in, roles, tokens and limits."""
