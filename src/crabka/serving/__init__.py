"""How a node answers frames: requests, tables of APIs, dispatch to handlers, and answers that both roles share."""
