"""The predictions of one model on one dataset on disk: journal, final file, parts of it."""
