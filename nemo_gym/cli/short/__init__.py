"""The command `gym`, also called `ng`: groups of verbs with short flags, which run the `ng_*` commands.

`verbs` declares the groups and `flags` the options. `line` parses a command line with click, and `translation` turns it
into the overrides of a command.
"""
