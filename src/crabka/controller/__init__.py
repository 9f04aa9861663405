"""The controller role of a node: its listener, its writes to the metadata, and its watch over the brokers.

`service` is the role as a whole, `api_table` lists what it answers, `handlers` has one module per API.
`metadata_writer` is the one way to change metadata; what is to be written is decided by the pure functions of
`decisions`. `duties` and `broker_watch` are what the active controller does by itself.
"""
