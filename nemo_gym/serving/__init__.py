"""Being called: the app, routes, middleware and sessions that all servers share.

Every request passes the middleware (token, session, deadline, error envelopes), whether it arrives over a socket or in
memory. The room builds on `transport` and `config`; uvicorn and FastAPI do the rest.

- `base`: the base classes of servers, and the server process
- `admission`: the limit of requests that one replica handles at once
- `app`, `routes`: the FastAPI app and its direct routes
- `middleware`: the steps around every handler
- `sessions`: open sessions, signed cookies, and the sweeper
- `browser_requests`: refuses requests that a foreign web page may have made
- `disconnects`: cancels handlers whose client disconnects
- `listening`: the settings for uvicorn
- `log_lines`: the form of the lines of a server's log
- `rows`, `json_response`: request models, and responses made of JSON bytes
- `rollout_paths`: a rollout's id in the URL path
- `own_routes`: the routes about a server itself
- `garbage`: settings for the garbage collector
"""
