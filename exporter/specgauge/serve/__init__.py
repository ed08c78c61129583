"""The sidecar: scrape, add up, derive, publish; the only folder with sockets and a clock."""
