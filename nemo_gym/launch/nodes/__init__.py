"""A gym on several machines: a *node host* on every machine does the launcher's work there.

    node_host       the process on a node: fork server, held sockets, servers, their output
    places          the launcher's folders on a node that has copies of them
    channel         authenticated messages between the launcher and a node host
    node            one node as the launcher sees it: start of its host, requests, loss
    placing         the choice of a node for each replica
    replicas        all replicas, and the directory that says where they are
    moving          how a replica gets its place on a node, and leaves it
    scaling         replicas that are added and removed while a gym runs; the wait for their sessions
    hosts_spawner   the spawner of `+placement=hosts` and `+placement=ray`
    hosts           the machines, and a command that starts a node host there (SSH, srun)
    ray_hosts       the nodes of a Ray cluster in their place; `ray_driver` is the only process that imports Ray

The launcher starts a node host with a command, or by an actor of Ray. The node host dials the launcher, and renews a
lease with every beat. A node whose lease has expired ends its servers before the launcher places them elsewhere.
"""
