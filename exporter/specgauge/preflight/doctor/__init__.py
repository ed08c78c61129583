"""Why speculation disappoints on a server: evidence in, findings in their order out."""
