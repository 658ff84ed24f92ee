"""Audits: how often a verifier is wrong, measured by attempts whose right verdict is known.

A verifier is given attempts that it must accept (the gold answer, also in other spellings; the gold script) and
attempts that it must reject (nothing, near misses, answers that win everywhere, scripts that leave out or damage
something). Its errors are counted by class of attempt, with intervals, on a card.

    outcomes       a probe with its right verdict, its reward, and what that says
    card           rates by class, the worst first; comparison: a card against a limit and an earlier card
    journal        the outcomes on disk, by task; running: tasks at once, a budget, resume

    environment    an environment of a running gym: task_rows, probing (real routes over HTTP), answer_audit
    answer_types   the expected answer of a row; operators: attempts made from it, gold_scripts: attempts declared
    universal      short answers that win everywhere; leaks: the answer within reach
    judges         attempts that talk a judge into it; adversary: tools used to be rewarded without doing the task
    behaviour      the same attempt again, in another order, beside others, after a restart in other surroundings
    dataset_facts  duplicates and contradictions of rows; claims: which card supports `verified: true`

    rollout_audit  a run's scored rows: rollout_signs (signs of hacking), labels (rates and kappa), second verdicts

    tool_audit     folders of tool tasks, each probed in a worker process (tool_scripts)
    tool_grounds   on what grounds an accepted script without a call is a false accept (request_words, tool_entities)
    tool_damage    calls on bystanders, to be added to a gold script

A verdict that the audit cannot know is undecided: shown, and never counted. A run that is no audit imports nothing of
this room.
"""
