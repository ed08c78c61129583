"""What speculation takes of a server's memory, reckoned from folders or read from pages."""
