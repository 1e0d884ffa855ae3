"""The delivery of an agent's records to the bus, and the queue in which they wait."""
