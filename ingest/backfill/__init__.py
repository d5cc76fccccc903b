"""Records that the stream has not brought, read from their authors' own data servers into the event log.

A run finds the accounts that have our records (`turn`), lists each at its data server (`account`, in threads by
`threads`) and commits the answers (`runs`); `runs` also stores the progress, so that a kill repeats an account and
loses none. Protocol: the com.atproto lexicons.
"""
