"""Sides: databases and files opened as typed columns in key order."""
