"""Whether a draft fits its target, told from folders alone; starts no engine."""
