"""The steps of a reconciliation over two sides: in one process, over local processes, or one step for each task."""
