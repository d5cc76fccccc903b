"""Signing in with an AT Protocol account: this site as a client, its keys, attempts and sessions."""
