"""One module per API of the controller role; each has a function `handle(context, request)`."""
