"""Attempts that survive: the record of their model calls, and the replay of a record to a new attempt.

A run with `durability` names every attempt before it is dispatched, and sends the name as the session. The model
servers of the run append each of its calls to the attempt's record, which lies beside the run's rows, before the
answer goes out. An attempt that continues or forks another one runs its agent anew: its calls are answered from the
record at the seam of the engine's reply (`engines.record.tape`), its tools run again, and every request must say what
the recorded request said. After the recorded calls it is live for good.

    record      the lines of a record: written by model servers, read by them and by the collector
    noise       differences between two texts that a user has declared as noise
    matching    which recorded call a request is, as pure data
    replay      one session's replay: matching, and the recorded text in place of noise
    calls       the layer of a model server that records and replays calls

`serving.durable` has the name of an attempt, the plan of a replay, and how a server is told of a run. Nothing here is
imported before a durable run tells a model server of itself.
"""
