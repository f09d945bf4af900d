"""The steps of a reconciliation as Airflow operators: thin, and XComs hold digests only."""
