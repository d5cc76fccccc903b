"""The artefact that is judged: a change as read from its patch, what was found in it, how it is told."""
