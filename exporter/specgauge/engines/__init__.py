"""Text in, canonical samples out: one table a dialect and the reader that obeys it. No I/O."""
