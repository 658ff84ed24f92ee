"""Token ids exactly as the engine read and sampled them. Pure functions on data; builds on `responses`.

    capture              the ids of one engine answer
    ids                  sequences of ids and their fingerprints
    linkage              how each call's prompt extends the earlier calls of its session
    histories, splicing  digests of messages; the exact prompt of the next turn
    spelling             the sampled text of tool calls that an agent wrote again
    records, rows        the record of one call; the calls of a rollout's row, in three forms
    segments, masking    training sequences with loss masks; the share of masked calls of a run
    vocabulary           the bytes of ids, from a tokenizer's file
    reasons              the reasons for masks and for new segments

Readers of rows need `rows.read_calls(row)` and `segments.build_segments(calls)`. docs/tokens.md defines the fields.
"""
