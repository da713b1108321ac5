#!/bin/sh
# Makes Temporal's two databases and brings them to the newest schema; safe to repeat. SQL_* say where they are.
set -eu
for part in temporal visibility; do
  case $part in temporal) database=temporal ;; *) database=temporal_visibility ;; esac
  temporal-sql-tool --db "$database" create
  temporal-sql-tool --db "$database" setup-schema -v 0.0
  temporal-sql-tool --db "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/$part/versioned"
done
