"""Waiting for a migration to be applied, and for a manifest to be published."""
