#!/bin/sh
# Creates Temporal's two databases and migrates them to the newest schema; safe to repeat. SQL_* name their server.
set -eu
for part in temporal visibility; do
  case $part in temporal) database=temporal ;; *) database=temporal_visibility ;; esac
  temporal-sql-tool --db "$database" create
  temporal-sql-tool --db "$database" setup-schema -v 0.0
  temporal-sql-tool --db "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/$part/versioned"
done
