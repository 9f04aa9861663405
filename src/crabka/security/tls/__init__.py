"""Who a certificate is for: its name as Java writes it, and the rules that turn it into a principal. Pure."""
