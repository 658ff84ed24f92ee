"""An environment run against a model from Python (`nemo_gym.evaluate`).

`evaluation` composes, starts and collects in this process; `callable_engine` serves a Python function as the model. The
room builds on `launch`, `rollouts` and `datasets`.
"""
