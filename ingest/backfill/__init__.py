"""Records that the stream has not brought, read from their authors' own data servers into the event log.

A run finds the accounts that keep our records (`discover`), lists each at its data server (`account`, a few at a time
and politely by `threads`) and commits what they answered (`commit`); `runs` keeps how far it has come, so that a kill
repeats an account and loses none.
Protocol: the com.atproto lexicons.
"""
