"""Classes of traffic: the router's access log, read as it grows, and what it adds up to."""
