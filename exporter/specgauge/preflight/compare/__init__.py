"""The same workload on two pools, and whether the one that speculates may take the traffic."""
