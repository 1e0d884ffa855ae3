"""How an agent's records reach the bus, and where they wait until they have."""
