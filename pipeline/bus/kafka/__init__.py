"""The bus on Apache Kafka (or what speaks its protocol), for more than one machine."""
