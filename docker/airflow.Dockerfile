# Airflow with this provider: what docker-compose.yaml runs, and a recipe for an image of your own.
FROM apache/airflow:3.3.2-python3.12

COPY --chown=airflow:0 pyproject.toml README.md LICENSE /opt/delta/
COPY --chown=airflow:0 airflow_delta_provider /opt/delta/airflow_delta_provider
RUN pip install --no-cache-dir "/opt/delta[postgres,mysql,sqlalchemy,object-store]" "celery<5.7"
