"""Records of logs, sent to a collector of OpenTelemetry's (OTLP over HTTP): what `devtrace report --otlp` runs.

Nothing of it is imported by programs that devtrace watches."""
