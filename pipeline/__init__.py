"""The runtime: records, topics, buses, the runner, the exporter and the command line."""
