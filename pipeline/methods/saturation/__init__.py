"""The stage of saturation: scarce resources of hosts, and their top consumers."""
