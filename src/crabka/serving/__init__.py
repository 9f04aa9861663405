"""How a node answers frames: the request, the table of APIs, the way from bytes to a handler and back."""
