"""Durable attempts, as every server knows them that records a part of one.

    names       the name of an attempt, which is its session
    plans       which attempt a new one replays, and under which rules
    lines       a file of a record, to which one process appends
    tool_lines  the recorded tool calls of an attempt
    runs        the durable runs that a server was told of, and remembers over its restarts

Model servers record calls (`engines.attempts`), and resources servers may record tools (`resources.recorded_tools`).
Nothing here is imported before a durable run tells a server of itself.
"""
