"""The rim of `specgauge doctor`: files, pages and a server in, text or a document out."""
