"""Real Kafka brokers for tests: started, killed and asked like those of a machine room.

Kafka's own jars come from Maven Central once and are kept in the user's cache; Java 17 and Maven have to be there. What
is started here ends with the process that started it, also when that is killed.

The fixtures (tests/brokers/fixtures.py, available to all tests):

- `broker`: one broker for all processes of a test run. It is shared: give topics and groups names of your own. It
  cannot be stopped.
- `new_cluster(brokers=3, properties={...}, security=Security(...))`: one of your own, stopped after the test.

Both are a `Cluster`: `location` is the bus's address, `bootstrap` that of other clients, `tools` runs Kafka's own
commands, `nodes[0].kill()` and `.start()` do what they say.
"""

from tests.brokers.cluster import Cluster
from tests.brokers.node import Node
from tests.brokers.security import Security
from tests.brokers.tools import Printed, Tools

__all__ = ["Cluster", "Node", "Printed", "Security", "Tools"]
