"""Members of groups and transactional copiers against the real coordinators of a node that dies and comes back."""
