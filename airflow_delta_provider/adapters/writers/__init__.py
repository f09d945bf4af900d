"""Writers: one table of one engine, opened for a patch."""
