"""Telling people of a manifest, over whatever channel Airflow has."""
