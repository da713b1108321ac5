#!/bin/sh
# Creates the namespace and the search attributes that the workflows set; safe to repeat.
set -eu
tries=0
# It takes a few seconds until every part of the server knows a new namespace.
until
  temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null ||
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 30d
  temporal operator search-attribute create --namespace "$TEMPORAL_NAMESPACE" \
    --name CaseState --type Keyword --name CaseSeverity --type Keyword --name CaseChannel --type Keyword
do
  tries=$((tries + 1))
  [ "$tries" -lt 30 ]
  sleep 2
done
