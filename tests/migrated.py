"""Migrations by the tools that make them: two revisions of each, applied one after the other.

Alembic, Django, dbt and (with Java) Liquibase run themselves. Flyway's and, by day, Liquibase's tables are made here as their
documentation gives them, and filled as they fill them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., None]
"""Runs SQL statements on the migrated database."""
REVISIONS = {
    "alembic": ("aa01", "aa02"),
    "django": ("shop.0001_initial", "shop.0002_money"),
    "flyway": ("1", "2"),
    "liquibase": ("ann:c1", "ann:c2"),
}
FLYWAY = (
    "CREATE TABLE flyway_schema_history (installed_rank INT PRIMARY KEY, version VARCHAR(50), description VARCHAR(200), "
    "type VARCHAR(20), script VARCHAR(1000), checksum INT, installed_by VARCHAR(100), installed_on TIMESTAMP, "
    "execution_time INT, success BOOLEAN)"
)
LIQUIBASE = (
    "CREATE TABLE DATABASECHANGELOG (ID VARCHAR(255), AUTHOR VARCHAR(255), FILENAME VARCHAR(255), DATEEXECUTED TIMESTAMP, "
    "ORDEREXECUTED INT, EXECTYPE VARCHAR(10), MD5SUM VARCHAR(35), DESCRIPTION VARCHAR(255), COMMENTS VARCHAR(255), "
    "TAG VARCHAR(255), LIQUIBASE VARCHAR(20), CONTEXTS VARCHAR(255), LABELS VARCHAR(255), DEPLOYMENT_ID VARCHAR(10))"
)
LOCK = "CREATE TABLE DATABASECHANGELOGLOCK (ID INT PRIMARY KEY, LOCKED BOOLEAN, LOCKGRANTED TIMESTAMP, LOCKEDBY VARCHAR(255))"
WHEN = "'2026-11-01 00:00:00'"


def alembic(folder: Path, uri: str, revision: str) -> None:
    """Migrate with Alembic itself, two revisions on a branch of one; ``uri`` is SQLAlchemy's."""
    from alembic import command
    from alembic.config import Config

    scripts = folder / "migrations"
    if not scripts.exists():
        (scripts / "versions").mkdir(parents=True)
        (scripts / "env.py").write_text(
            "from alembic import context\nfrom sqlalchemy import create_engine\n"
            "with create_engine(context.config.get_main_option('sqlalchemy.url')).connect() as connection:\n"
            "    context.configure(connection=connection)\n"
            "    with context.begin_transaction():\n        context.run_migrations()\n    connection.commit()\n"
        )
        for name, before in (("aa01", None), ("aa02", "aa01")):
            (scripts / "versions" / f"{name}.py").write_text(
                f"from alembic import op\nrevision = {name!r}\ndown_revision = {before!r}\n"
                f"branch_labels = depends_on = None\ndef upgrade():\n    op.execute('CREATE TABLE {name} (id INTEGER)')\n"
                f"def downgrade():\n    op.execute('DROP TABLE {name}')\n"
            )
    config = Config()
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("sqlalchemy.url", uri.replace("%", "%%"))
    command.upgrade(config, revision)


def django(folder: Path, database: dict[str, object], revision: str) -> None:
    """Migrate with Django itself: an app ``shop`` of two migrations; ``database`` is an entry of its setting DATABASES."""
    project = folder / "django"
    migrations = project / "shop" / "migrations"
    if not project.exists():
        migrations.mkdir(parents=True)
        (project / "shop" / "__init__.py").touch()
        (migrations / "__init__.py").touch()
        (project / "settings.py").write_text(
            f"INSTALLED_APPS = ['shop']\nDATABASES = {{'default': {database!r}}}\nSECRET_KEY = 'tests'\nUSE_TZ = True\n"
        )
        head = "from django.db import migrations, models\nclass Migration(migrations.Migration):\n"
        (migrations / "0001_initial.py").write_text(
            f"{head}    operations = [migrations.CreateModel('Item', [('id', models.AutoField(primary_key=True))])]\n"
        )
        (migrations / "0002_money.py").write_text(
            f"{head}    dependencies = [('shop', '0001_initial')]\n"
            "    operations = [migrations.AddField('Item', 'money', models.IntegerField(default=0))]\n"
        )
    command = [sys.executable, "-m", "django", "migrate", *revision.split("."), "--verbosity", "0"]
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(project)}
    subprocess.run(command, cwd=project, env=environment, check=True, timeout=120)


def flyway_row(rank: int, version: str | None, success: bool = True, kind: str = "SQL") -> str:
    """Return the statement by which Flyway records a migration; a repeatable one has no version."""
    name = "NULL" if version is None else f"'{version}'"
    done = "TRUE" if success else "FALSE"
    return f"INSERT INTO flyway_schema_history VALUES ({rank}, {name}, 'views', '{kind}', 'V.sql', 1, 'me', {WHEN}, 5, {done})"


def flyway(run: Run, revision: str) -> None:
    """Record a version as Flyway does; before the first one, that it has made the schema."""
    if revision == "1":
        run(FLYWAY, flyway_row(0, None, kind="SCHEMA"))
    run(flyway_row(int(revision), revision))


def change_set(number: int, kind: str = "EXECUTED") -> str:
    """Return the statement by which Liquibase records a change set of ``ann``."""
    return (
        "INSERT INTO DATABASECHANGELOG (ID, AUTHOR, FILENAME, DATEEXECUTED, ORDEREXECUTED, EXECTYPE, MD5SUM, DEPLOYMENT_ID)"
        f" VALUES ('c{number}', 'ann', 'changes.xml', {WHEN}, {number}, '{kind}', '9:x', '1')"
    )


def liquibase(run: Run, revision: str) -> None:
    """Record a change set as Liquibase does: under its lock, which is made with the first one."""
    number = int(revision[-1])
    if number == 1:
        run(LIQUIBASE, LOCK, f"INSERT INTO DATABASECHANGELOGLOCK VALUES (1, FALSE, {WHEN}, NULL)")
    run("UPDATE DATABASECHANGELOGLOCK SET LOCKED = TRUE")
    run(change_set(number))
    run("UPDATE DATABASECHANGELOGLOCK SET LOCKED = FALSE")


DBT = ("dbt-core==1.9.8", "dbt-duckdb==1.9.4", "duckdb==1.3.2")


def install_dbt(folder: Path, uv: str) -> Path:
    """Return dbt, installed into an environment of its own: what it needs is at odds with what Airflow needs."""
    place = folder / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True, timeout=120)
    command = [uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), *DBT]
    subprocess.run(command, check=True, timeout=480)
    return place / "bin" / "dbt"


def dbt(program: Path, project: Path, command: str, second_model: str) -> Path:
    """Run a command of dbt over two models, of which the second is what is given; return its run_results.json."""
    (project / "models").mkdir(parents=True, exist_ok=True)
    (project / "dbt_project.yml").write_text("name: shop\nversion: '1.0.0'\nprofile: shop\nmodel-paths: [models]\n")
    (project / "profiles.yml").write_text(
        f"shop:\n  target: dev\n  outputs:\n    dev: {{type: duckdb, path: {project / 'shop.duckdb'}}}\n"
    )
    (project / "models" / "orders.sql").write_text("SELECT 1 AS id\n")
    (project / "models" / "money.sql").write_text(second_model)
    line = [str(program), "--no-send-anonymous-usage-stats", command, "--profiles-dir", str(project)]
    environment = os.environ | {"DO_NOT_TRACK": "1"}
    subprocess.run(line, cwd=project, env=environment, capture_output=True, timeout=240)
    return project / "target" / "run_results.json"


LIQUIBASE_PACKAGE = "liquibase@4.28.1"
CHANGES = (
    "--liquibase formatted sql\n--changeset ann:c1\nCREATE TABLE item (id int);\n"
    "--changeset ann:c2\nALTER TABLE item ADD money int;\n"
)


def install_liquibase(folder: Path, npm: str) -> Path:
    """Return Liquibase, from its package for another language, which brings the whole program and drivers."""
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--no-save", "--prefix", str(folder)]
    subprocess.run([*command, LIQUIBASE_PACKAGE], check=True, timeout=300, stdin=subprocess.DEVNULL)
    return folder / "node_modules" / "liquibase" / "dist" / "liquibase" / "liquibase"


def liquibase_itself(program: Path, folder: Path, address: str, user: str, password: str) -> None:
    """Apply the next change set of two with Liquibase; ``address`` is JDBC's."""
    (folder / "changes.sql").write_text(CHANGES)
    where = [f"--url={address}", f"--username={user}", f"--password={password}", "--changelog-file=changes.sql"]
    command = [str(program), *where, "update-count", "--count=1"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=240)
