"""The bus on Apache Kafka, or another broker with its protocol, for more than one machine."""
