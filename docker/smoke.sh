#!/usr/bin/env bash
# Brings up docker-compose.yaml, compares a thousand rows of PostgreSQL with MariaDB on two workers, verifies the manifest in
# the object store, and takes everything down again (KEEP=1 leaves it up). Needs Docker with Compose 2, and openssl.
# It ends with "smoke: passed" and status 0, or says what failed.
set -euo pipefail
cd "$(dirname "$0")/.."

export COMPOSE_PROJECT_NAME=delta-smoke
STORE=s3://delta/deltas
WAIT_S=600
RUN_ID="smoke-$(date +%s)"

say() { echo "smoke: $*"; }
compose() { docker compose --env-file "$ENV_FILE" -f docker-compose.yaml -f docker/smoke.yaml "$@"; }
airflow() { compose exec -T scheduler airflow "$@" 2>/dev/null; }
fail() {
    say "failed: $*" >&2
    compose logs --tail 40 scheduler worker-1 worker-2 >&2 || true
    exit 1
}
wait_for() { # what, command...
    local what=$1 deadline=$((SECONDS + WAIT_S))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || fail "$what did not happen within $WAIT_S s"
        sleep "${POLL_S:-5}"
    done
}

ENV_FILE=$(mktemp)
clean_up() {
    if [ -z "${KEEP:-}" ]; then compose down --volumes --timeout 20 >/dev/null 2>&1 || true; rm -f "$ENV_FILE"; fi
}
trap clean_up EXIT

# Secrets of this run alone: every variable that docker/env.example names.
while IFS='=' read -r name _; do
    case $name in
        ''|'#'*) continue ;;
        AIRFLOW_FERNET_KEY) value=$(openssl rand -base64 32 | tr '+/' '-_') ;;
        *) value=$(openssl rand -hex 32) ;;
    esac
    echo "$name=$value" >>"$ENV_FILE"
done <docker/env.example

say "building and starting"
compose up --detach --build --wait --wait-timeout "$WAIT_S" --quiet-pull \
    api-server scheduler dag-processor triggerer worker-1 worker-2 >/dev/null || fail "a service is not healthy"
say "every service is healthy"

compose exec -T source psql -q -U delta -d shop -v ON_ERROR_STOP=1 <docker/smoke_source.sql >/dev/null
# shellcheck disable=SC2016 # the password is the container's
compose exec -T target sh -c 'mariadb -u delta -p"$MARIADB_PASSWORD" shop' <docker/smoke_target.sql
say "both tables are written"

parsed() { airflow dags list --output plain | grep -q '^smoke '; }
wait_for "the parsing of the Dag" parsed
airflow dags unpause smoke >/dev/null
airflow dags trigger smoke --run-id "$RUN_ID" >/dev/null || fail "the Dag could not be triggered"
ended() {
    STATE=$(airflow dags state smoke "$RUN_ID" | grep -oE '^(success|failed)' | tail -1) || return 1
    [ -n "$STATE" ]
}
wait_for "the end of the run" ended
[ "$STATE" = success ] || fail "the run ended as $STATE"
say "the run succeeded on two workers"

verified=$(compose exec -T worker-1 airflow-delta verify smoke --store "$STORE" --json) || [ $? -eq 4 ] || fail "verify: $verified"
manifest=$(compose exec -T worker-1 airflow-delta log smoke --store "$STORE" | grep -oE 'manifest +[0-9a-f]{64}' | tail -1 | grep -oE '[0-9a-f]{64}') \
    || fail "the log names no manifest"
records=$(compose exec -T worker-1 airflow-delta show "$manifest" --store "$STORE" --json | grep -oE '"sort_key"' | wc -l)
[ "$records" -eq 3 ] || fail "$records records differ, and not 3"
say "manifest $manifest: 3 records differ, as they should"
say "passed"
