"""Trajectories of other agents: ATIF, the format of Harbor, versions 1.0 to 1.8 in and 1.7 or 1.8 out.

    trajectory  the format as data
    writing     a row as a trajectory
    reading     a trajectory as a row
    steps       a step as items of the Responses API, which both directions share
    patches     the difference between what the format gives back and what was there
    tokens      the ids of a call: fields of an item, metrics of a step
    drafts      the items of a row in steps
    media       images and audio in files beside a trajectory

`nemo_gym.rollouts.lookback.trajectories` finds the trajectories at a path and makes a file of rows of them.

A trajectory has rooms for the gym's own data (`extra`), so that a row that was written is read back equal. What only
these rooms hold is counted by kind. A trajectory of another program is read as a row with a mark, which exports for
training leave out unless every call has its tokens.
"""
