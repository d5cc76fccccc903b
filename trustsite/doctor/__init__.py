"""`manage.py doctor`: what may be wrong with an installation, each looked at on its own."""
