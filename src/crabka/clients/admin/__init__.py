"""Administration: `admin.Admin`, its parts about nodes, replicas, log dirs and groups, and the values they return."""
