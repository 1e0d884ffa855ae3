#!/bin/sh
# Print laggard's incidents that are about now with what comes with Kafka, one line each; with jq in words, else as JSON.
#
#   export LAGGARD_BUS_LOCATION=kafka://broker-1:9092,broker-2:9092
#   ./console.sh
#
# Options are those of kafka-console-consumer.sh: --from-beginning, --max-messages 10, --group NAME, and for TLS and SASL
# --consumer.config FILE (--command-config from Kafka 4.2 on). Its commands are on the path, or in KAFKA_HOME/bin.
#
# For looking: it says that it has read an event before you have. What must not be lost is anomalies.py's.
case ${1:-} in
-h | --help)
    sed -n '2,10s/^#[ ]\{0,1\}//p' "$0"
    exit
    ;;
esac
servers=${LAGGARD_BUS_LOCATION#kafka://}
if [ -z "$servers" ] || [ "$servers" = "$LAGGARD_BUS_LOCATION" ]; then
    echo "LAGGARD_BUS_LOCATION: expected kafka://HOST:PORT,HOST:PORT, some of the brokers" >&2
    exit 2
fi
[ -z "${KAFKA_HOME:-}" ] || PATH=$KAFKA_HOME/bin:$PATH
if ! command -v kafka-console-consumer.sh >/dev/null; then
    echo "kafka-console-consumer.sh: expected it on the path, or in KAFKA_HOME/bin" >&2
    exit 2
fi

consume() {
    kafka-console-consumer.sh --bootstrap-server "$servers" --topic "${LAGGARD_TOPICS_PREFIX-laggard.}anomalies" \
        --isolation-level read_committed "$@"
}

# A line that is no JSON, or of another kind, stops nothing. Nothing of a process's name may steer a terminal.
words='try (
    fromjson | select(.kind == "incident" and .live == true)
    | "\(.ts | floor | todate) \(.host // .application // .pool // .service): \(.sentence)"
      + if .young then " (still learning: think twice)" else "" end
    | gsub("[[:cntrl:]]"; "?")
) catch empty'

choose() {
    if command -v jq >/dev/null; then
        jq --unbuffered --raw-input --raw-output "$words"
    else
        grep --line-buffered '"kind": *"incident".*"live": *true'
    fi
}

# The exit code is the consumer's, which a pipe alone would hide.
{ code=$({ { consume "$@"; echo $? >&3; } | choose >&4; } 3>&1); } 4>&1
exit "$code"
