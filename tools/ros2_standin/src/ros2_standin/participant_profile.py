"""The Fast DDS settings of the nodes of this package: the period of announcements and the queue of shared memory.

A participant that starts can miss the answer to its first announcement; its next chance is the periodic announcement of
the participant that was there first. Fast DDS sends one every 3 s by default, here it is every 0.5 s.

Programs on one machine reach each other through shared memory, where Fast DDS queues 512 messages of all topics
together: 85 ms at 6000 messages a second. A loaded machine keeps the receiving thread waiting for longer. Measured on
two cores under a load of ten: up to 3 % of a recorder's messages lost with that queue, none with LONG_QUEUE.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

LONG_QUEUE = 16384  # messages, for a recorder
VARIABLE = "FASTRTPS_DEFAULT_PROFILES_FILE"
VARIABLES = (VARIABLE, "FASTDDS_DEFAULT_PROFILES_FILE")
TRANSPORT = """
  <transport_descriptors>
    <transport_descriptor>
      <transport_id>queue</transport_id>
      <type>SHM</type>
      <port_queue_capacity>{queue}</port_queue_capacity>
    </transport_descriptor>
  </transport_descriptors>"""
USED_TRANSPORT = """
      <userTransports>
        <transport_id>queue</transport_id>
      </userTransports>"""
PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">{transport}
  <participant profile_name="ros2_standin" is_default_profile="true">
    <rtps>{used_transport}
      <builtin>
        <discovery_config>
          <leaseAnnouncement>
            <sec>0</sec>
            <nanosec>500000000</nanosec>
          </leaseAnnouncement>
        </discovery_config>
      </builtin>
    </rtps>
  </participant>
</profiles>
"""


@contextlib.contextmanager
def participant_profile(queue: int | None = None) -> Iterator[None]:
    """Apply the settings to the nodes created meanwhile, unless the user has profiles of their own.

    queue: how many messages shared memory holds for the node, where it is not the default.
    """
    if any(variable in os.environ for variable in VARIABLES):
        yield
        return
    transport, used = (TRANSPORT.format(queue=queue), USED_TRANSPORT) if queue else ("", "")
    with tempfile.NamedTemporaryFile("w", suffix=".xml", encoding="utf-8") as file:
        file.write(PROFILE.format(transport=transport, used_transport=used))
        file.flush()
        os.environ[VARIABLE] = file.name
        try:
            yield
        finally:
            del os.environ[VARIABLE]
