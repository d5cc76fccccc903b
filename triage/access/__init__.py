"""Access for reading and acting: sign-in, roles, tokens and limits."""
