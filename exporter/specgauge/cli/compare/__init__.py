"""`specgauge compare`, in parts: its options, what it drives, what it reads, what it prints."""
