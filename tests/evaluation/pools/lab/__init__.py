"""Real pools at work, one member of which goes wrong: recorded by the agent, with what is true of them beside."""
