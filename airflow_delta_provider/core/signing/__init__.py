"""Who vouches for a manifest: envelopes, statements and keys."""

from airflow_delta_provider.core.signing.sign import envelope_signer, load_signer, sign_manifest

__all__ = ["envelope_signer", "load_signer", "sign_manifest"]
