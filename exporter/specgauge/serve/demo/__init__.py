"""A recorded vLLM server that plays itself back over HTTP; never a source of real measurements."""
