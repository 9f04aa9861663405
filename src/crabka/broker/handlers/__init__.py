"""One module per API, named as the API; each has a function `handle(context, request)`."""
