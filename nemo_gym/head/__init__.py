"""The head server: discovery of the gym's servers, and `POST /rollouts` for trainers.

Its answers contain no secrets. Builds on `rollouts`, which it imports at the first request for rollouts.

- `server`: `HeadServer` and its routes
"""
