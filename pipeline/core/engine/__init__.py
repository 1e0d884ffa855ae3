"""The engine: stages and their tasks on partitions, states and snapshots, recovery, the runner that drives them."""
