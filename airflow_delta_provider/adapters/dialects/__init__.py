"""Database engines, one file each: a database's name appears in this folder alone."""
