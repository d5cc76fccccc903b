"""Sign-in with an AT Protocol account, and requests to the person's own data server with what it granted."""
