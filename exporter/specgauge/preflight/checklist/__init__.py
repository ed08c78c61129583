"""Whether a deployment may go live: a gate for each point of the articles."""
