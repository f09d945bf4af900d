"""The pages in Airflow's UI: a tab on Dags, runs and task instances, and a page in the navigation; read only."""
