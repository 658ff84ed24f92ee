"""The control of a run that goes on: pause, resume, drain, cancel, requeue, set.

One object, `RunControl`, controls a run wherever its collector is: in a command, or in the head server for
`POST /rollouts`. `gym ctl` and the viewer's buttons send the same requests to its routes.

- `verbs`: requests and their effects, as one pure function
- `run_control`: carries the effects out, and writes them to the run's events
- `events`: `<stem>_events.jsonl`, and what a resumed run takes from it
- `routes`: the routes over HTTP, for the head server and for the endpoint
- `endpoint`: the address of a run that a command collects, and the file that announces it
"""
