"""Who a client is, what it may do, and how much of a node it may use: decisions without sockets, files or clocks."""
