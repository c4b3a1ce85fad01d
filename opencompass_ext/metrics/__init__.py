"""Pure arithmetic: the formulas of the metrics over lists of numbers. No files, no registry."""
