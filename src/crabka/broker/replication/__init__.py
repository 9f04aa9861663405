"""How the replicas of a partition stay equal: decisions of leaders and followers."""
