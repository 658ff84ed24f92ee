"""The ecosystem's import path for tasks made of rows."""

from nemo_gym.protocol.tasks import materialize_task as materialize_task
