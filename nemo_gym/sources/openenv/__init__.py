"""An environment of ours as a server of OpenEnv, so that clients of OpenEnv play and train on it.

episode     one attempt, whose actions come from a client
messages    the messages of a web socket, JSON-RPC, and the schemas of actions and observations
tasks       the environment's rows as OpenEnv's tasks
server      the routes
"""
