"""Logs of Inspect, in and out, by way of the trajectory format of `nemo_gym.sources.atif`.

    messages  the messages of a sample as steps of a trajectory, and back
    media     images and audio, which are data in both
    writing   a row as a sample, and the rest of a log
    reading   the samples of a log (`.json`, `.eval`) as trajectories

A sample has room for the gym's own data in its `metadata`, so that a row that was written is read back equal.
"""
