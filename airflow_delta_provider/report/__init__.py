"""Manifests in other forms: tables, test results, statements and a page for people. What they show is read from a store."""
