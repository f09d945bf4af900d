"""Rules: what a reconciliation may call equal beyond equal values, and how texts are read as typed values."""
