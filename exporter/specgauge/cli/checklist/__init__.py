"""`specgauge checklist`: the rim around the gates of `preflight/checklist`."""
