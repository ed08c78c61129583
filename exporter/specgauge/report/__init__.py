"""The report on a past: what to ask, figures from answers, what follows, and documents of it."""
