"""The token half of a model server: exact prompts, token records, and engines that training can use.

completions          the calls of an engine
training_requests    the fields of a request that ask for exact tokens
exact_prompts        token ids instead of messages, for engines that accept them
recorder             the record of a call, and its link to the earlier calls of its session
probe                whether an engine's tokens can be used for training
texts                the texts of token ids
"""
