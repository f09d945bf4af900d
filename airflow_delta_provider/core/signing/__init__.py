"""Who vouches for a manifest: envelopes, statements and keys."""
