"""One run from start to end: what it is going to do, how far it is, how it ended."""
